//===- Training.h - A distributed program, interpreted step by step --------===//
//
// Runs the program that `dist` left, for all ranks in float64: sets what it keeps, feeds
// micro-batches to its entries, plays the table of a pipeline, and hands out what the
// ranks hold. It knows of no model, file or recipe; weights and tokens come from the
// caller.
//
// The places of a pipeline run programs of their own. What they exchange is played by
// slots that hold what the table says and by messages in channels; entries that add up
// over places run on a thread for each.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Interpreter/Interpreter.h"
#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "dialects/Pipe/Pipe.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/Base/Status.h"
#include <memory>

namespace cleave {

/// What the ranks of one place run, and what they keep. Without a pipeline there is one.
struct Part {
  /// `facts` is the program that says where arguments and kept tensors lie; `module`
  /// itself, but where that is an edited copy.
  Part(mlir::ModuleOp module, mlir::ModuleOp facts);

  /// Runs an entry on blocks, one for each argument.
  rt::StatusOr<std::vector<RankTensors>> call(llvm::StringRef entry,
                                              llvm::ArrayRef<RankTensors> arguments);
  /// The blocks of `whole` as argument `i` of `entry` lies. Tokens, which are given in order,
  /// are put in that of the program.
  RankTensors cutFor(llvm::StringRef entry, unsigned i, const HostTensor &whole);
  /// The blocks of `whole` under `sharding`.
  RankTensors cut(const HostTensor &whole, dist::ShardingAttr sharding) const;
  /// How the slot of a parameter's tensors lies.
  dist::ShardingAttr shardingOf(nn::ParameterOp parameter, llvm::StringRef slot) const;
  /// The whole of one of the tensors of `parameter`; an error where nothing is stored.
  rt::StatusOr<HostTensor> joined(nn::ParameterOp parameter, const std::string &name,
                                  llvm::StringRef slot) const;
  /// At which positions the tokens of a sequence stand that is `length` long.
  std::vector<int64_t> orderOf(int64_t length) const;
  /// Kept tensors as `facts` declares them.
  auto parameters() { return facts.getOps<nn::ParameterOp>(); }

  mlir::ModuleOp module, facts;
  dist::Mesh mesh;
  StateStore state;
  InterpreterOptions options;
  /// The micro-batch whose forward or backward is being run.
  int64_t micro = 0;
  /// Blocks of the zig-zag in which tokens stand; 1: in order.
  int64_t zigzag = 1;
};

/// Gives argument `name` ("tokens", "targets", "positions") of a micro-batch, whole:
/// [sequences, tokens].
using BatchSource = llvm::function_ref<HostTensor(llvm::StringRef name, int64_t micro)>;

/// Gives the tensor `name`, one of those of `parameter`, whole.
using WeightSource = llvm::function_ref<rt::StatusOr<HostTensor>(nn::ParameterOp parameter,
                                                                 const std::string &name)>;

/// One layout's training. Programs outlive it.
class Training {
public:
  /// What an update returns, in one place.
  struct Updated {
    double loss = 0, norm = 0;
    /// What is minimised; `loss`, if that is all.
    double objective = 0;
  };

  /// `program` has parts, one for each place of a pipeline, or is one itself. `facts` is
  /// absent, or a program of the same parts (see `Part`).
  explicit Training(mlir::ModuleOp program, mlir::ModuleOp facts = {});

  /// Sets the values of all tensors; moments are zeros.
  rt::Status load(WeightSource weights);
  /// Clears what a step adds up.
  void begin();
  /// Counts, surveys where the program does, then forward and backward of all micro-batches.
  rt::Status accumulate(int64_t microBatches, BatchSource batch);
  /// The end of a step; what each place returns.
  rt::StatusOr<std::vector<Updated>> update(double rate, double correction1, double correction2);

  /// The places, in order.
  std::vector<std::unique_ptr<Part>> &parts() { return places; }

private:
  /// Goes forward through all micro-batches as far as sums over the batch need it.
  rt::Status survey(int64_t microBatches, BatchSource batch);
  /// Runs `entry` on the same whole arguments in all places at once; each one's results.
  rt::StatusOr<std::vector<std::vector<RankTensors>>>
  callTogether(llvm::StringRef entry, llvm::ArrayRef<HostTensor> arguments);

  mlir::ModuleOp program;
  std::vector<std::unique_ptr<Part>> places;
};

/// The programs in a module after `dist`: one for each place of a pipeline, else itself.
llvm::SmallVector<mlir::ModuleOp> programsIn(mlir::ModuleOp module);

} // namespace cleave

//===- Passage.h - Forward through the layers and back ---------------------===//
#pragma once

#include "dialects/Interfaces/Interfaces.h"
#include "dialects/NN/NN.h"
#include "lib/Transforms/ApplyPlan/Split.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include <variant>
#include <vector>

namespace cleave {

/// Operators that sum over the whole batch, and the accumulators that hold their sums.
using BatchSums = llvm::MapVector<mlir::Operation *, std::string>;

/// The operators of `block`, as `WholeBatchOpInterface` has them.
llvm::SmallVector<WholeBatchOpInterface> batchSumsIn(mlir::Block &block);
/// The operators of `block` that `wanted` needs.
llvm::DenseSet<mlir::Operation *> neededFor(mlir::ValueRange wanted, mlir::Block &block);

/// Builds the calls of a micro-batch at a builder's insertion point: those of the
/// forward halves in the order of `@forward`, then those of the backward halves.
/// A repeat of layers becomes one repeat forward, which stacks what the backward
/// reads, and one backward, which scans that in reverse. A kind that runs in pieces
/// becomes one repeat that goes forward and back for each piece.
class Passage {
public:
  /// With `record` the way back can be built; without, nothing is kept for it. `sums` are
  /// the accumulators that hold sums over the whole batch; one that is not there is that of
  /// a micro-batch, the only one of its batch.
  Passage(mlir::OpBuilder &builder, llvm::StringMap<SplitKind> &kinds, bool record,
          const BatchSums &sums)
      : b(builder), kinds(kinds), record(record), sums(sums) {}

  /// Goes through what `wanted` needs of `from`, the block of `@forward` or of a stage,
  /// whose arguments are `arguments` here. Returns `wanted` as they are here.
  llvm::SmallVector<mlir::Value> forward(mlir::Block &from, mlir::ValueRange arguments,
                                         mlir::ValueRange wanted);

  /// The same for a block that returns the loss: adds it to the accumulator `step.loss`,
  /// and with `record` what it returns behind, further terms of what is minimised, to
  /// `step.terms`.
  void forwardToLoss(mlir::Block &from, mlir::ValueRange arguments);

  /// Goes back from the loss with the gradient 1, or from `outputs`, which `forward`
  /// returned, with `gradients`. Parameters' gradients are accumulated in their slots;
  /// returns those of `inputs`.
  llvm::SmallVector<mlir::Value> backward(mlir::ValueRange outputs, mlir::ValueRange gradients,
                                          mlir::ValueRange inputs);

  /// What kinds put off on the way back (`SplitKind::weights`).
  void weights();

private:
  using Gradients = llvm::DenseMap<mlir::Value, mlir::Value>;
  struct Call {
    mlir::func::CallOp made;
    SplitKind *kind;
  };
  struct Repeat {
    nn::RepeatOp made;
    std::vector<Call> calls;
    /// Values of its block and which stacked result has them.
    llvm::MapVector<mlir::Value, unsigned> stacked;
  };

  /// What is left of the way back of a call, and in a repeat of that which goes back
  /// through its layers.
  struct Deferred {
    mlir::func::CallOp forward, backward;
    SplitKind *kind;
  };
  struct DeferredRepeat {
    nn::RepeatOp backward;
    std::vector<Deferred> calls;
  };

  /// The gradients of what was given in pieces.
  struct Pieces {
    llvm::MapVector<mlir::Value, mlir::Value> gradients;
  };

  /// An operator that stands between the layers.
  using Between = DifferentiableOpInterface;

  Call call(mlir::func::CallOp original);
  Pieces pieces(mlir::func::CallOp original, SplitKind &kind);
  void sum(WholeBatchOpInterface original);
  void addTerm(mlir::Value term, llvm::StringRef total);
  Repeat repeat(nn::RepeatOp original);
  void stack(const Call &call, Repeat &into, mlir::Block *block);

  void back(const Call &call, Gradients &gradients,
            llvm::function_ref<mlir::Value(mlir::Value)> seen, std::vector<Deferred> &left);
  void back(const Repeat &repeat, Gradients &gradients);
  void back(Between op, Gradients &gradients);
  void accumulate(mlir::func::CallOp forward, int64_t argument, mlir::Value gradient);
  static mlir::Value inputOf(Deferred call, SplitKind::WeightInput input);
  void weights(Deferred call, llvm::function_ref<mlir::Value(mlir::Value)> seen);
  void weights(const DeferredRepeat &repeat);
  void add(Gradients &gradients, mlir::Value of, mlir::Value gradient);
  mlir::Value gradientOf(mlir::Value v, Gradients &gradients);
  mlir::Value constant(mlir::Location loc, mlir::Type type, double value);

  mlir::OpBuilder &b;
  llvm::StringMap<SplitKind> &kinds;
  bool record;
  const BatchSums &sums;
  mlir::IRMapping map;
  std::vector<std::variant<Call, Repeat, Pieces, Between>> steps;
  /// In the order in which the way back meets them.
  std::vector<std::variant<Deferred, DeferredRepeat>> deferred;
  /// What is minimised is their sum.
  llvm::SmallVector<mlir::Value> terms;
};

} // namespace cleave

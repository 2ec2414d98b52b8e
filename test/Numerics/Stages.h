//===- Stages.h - The stages of a pipeline, interpreted side by side -------===//
//
// A pipeline's places run programs of their own. This plays the table of a step: what
// a rank does, one action after the other, on slots that hold what the table says,
// with messages in channels. Entries that add up over stages run on a thread for each
// place.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Interpreter/Interpreter.h"
#include "dialects/Dist/Dist.h"
#include "dialects/Pipe/Pipe.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include <map>
#include <memory>

namespace cleave::test {

/// What the ranks of one place run, and what they keep. Without a pipeline there is one.
struct Part {
  mlir::ModuleOp module;
  dist::Mesh mesh;
  StateStore state;
  InterpreterOptions options;

  explicit Part(mlir::ModuleOp module);
  /// Runs an entry on blocks, one for each argument. Throws on any error.
  std::vector<RankTensors> call(llvm::StringRef entry, llvm::ArrayRef<RankTensors> arguments);
  /// The blocks of `whole` as argument `i` of `entry` lies.
  RankTensors cutFor(llvm::StringRef entry, unsigned i, const HostTensor &whole) const;
};

/// Gives argument `name` ("tokens") of a micro-batch, whole.
using BatchSource = llvm::function_ref<HostTensor(llvm::StringRef name, int64_t micro)>;

/// Plays all forwards and backwards of a step.
void playSchedule(const pipe::Table &table, std::vector<std::unique_ptr<Part>> &parts,
                  BatchSource batch);

/// Runs `entry` on the same whole arguments in all places at once; each one's results.
std::vector<std::vector<RankTensors>> callTogether(std::vector<std::unique_ptr<Part>> &parts,
                                                   llvm::StringRef entry,
                                                   llvm::ArrayRef<HostTensor> arguments);

} // namespace cleave::test

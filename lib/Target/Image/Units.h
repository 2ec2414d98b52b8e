//===- Units.h - What runs as one step of a program ------------------------===//
//
// A flat block is cut into units: a group of operators that runs as kernels, a
// matrix product, an exchange, an access to state, a block that repeats, which
// has units of its own, or the exchanges of a bucket with what is done for them an
// iteration early or late. Units are put in an order that respects values and the
// order of accesses to each state tensor.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Target/CPU/KernelCompiler.h"
#include "cleave/Transforms/Fusion/Fusion.h"
#include "dialects/Dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallVector.h"
#include <string>
#include <variant>
#include <vector>

namespace cleave::image {

/// One launch of a kernel.
struct KernelCall {
  std::string symbol;
  /// Values, and tables or coordinates that the program supplies.
  std::vector<std::variant<mlir::Value, BodyInput>> args;
  /// How many of them, the last ones, it writes.
  size_t results = 0;
  int64_t extent = 1, grain = 1;
  double bytes = 0, flops = 0;
};

/// An output that lies over an input: it may, or (`must`) the kernel relies on it.
struct InPlace {
  mlir::Value output, input;
  bool must = false;
};

struct Unit {
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<mlir::Value> inputs, outputs;
  std::vector<KernelCall> kernels;
  llvm::SmallVector<InPlace> inPlace;
  /// Of a block that repeats, or of a bucket: what runs in its turns.
  std::vector<Unit> body;
  /// Of the exchanges of a bucket.
  std::optional<dist::Bucket> bucket;
  /// Numbers of buckets of a block that runs once which this unit is the first to need.
  llvm::SmallVector<int64_t> awaited;
};

/// The slot whose memory `slot` may lie in: a reduced gradient takes the place of the
/// gradient where it is cut alike, which nobody reads afterwards.
llvm::StringRef memoryOf(llvm::StringRef slot);

/// Cuts `block`, whose fusion is decided, into units in an order in which they can
/// run. Kernels are added to the module of `kernels`.
mlir::FailureOr<std::vector<Unit>> makeUnits(mlir::Block &block, KernelTable &kernels,
                                             const cpu::Profile &profile);

} // namespace cleave::image

//===- Units.h - What runs as one step of a program ------------------------===//
//
// A flat entry is cut into units: a group of operators that runs as kernels, a
// matrix product, an exchange, or an access to state. Units are put in an order
// that respects values and the order of accesses to each state tensor.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Target/CPU/KernelCompiler.h"
#include "dialects/Interfaces/Interfaces.h"
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
};

/// Cuts `entry` into units in an order in which they can run. Kernels are added
/// to `kernels`.
mlir::FailureOr<std::vector<Unit>> makeUnits(mlir::func::FuncOp entry, mlir::ModuleOp kernels,
                                             const cpu::Profile &profile);

} // namespace cleave::image

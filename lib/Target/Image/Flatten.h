//===- Flatten.h - An entry as one straight line of operators --------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave::image {

/// Puts the bodies of all called functions in place of the calls. Operators of a
/// call with `nn.layer` carry that number as `exec.layer`.
llvm::LogicalResult flattenCalls(mlir::func::FuncOp entry);

/// Writes out accumulations that no matrix product can do on the way: load, add,
/// store.
void expandAccumulates(mlir::func::FuncOp entry);

} // namespace cleave::image

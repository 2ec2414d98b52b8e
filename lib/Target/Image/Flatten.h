//===- Flatten.h - An entry without calls ----------------------------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave::image {

/// Puts the bodies of all called functions in place of the calls, those in repeats
/// too.
llvm::LogicalResult flattenCalls(mlir::func::FuncOp entry);

/// Writes out accumulations that no matrix product can do on the way: load, add,
/// store.
void expandAccumulates(mlir::func::FuncOp entry);

/// Lets matrix products of bf16 round their results themselves where nobody reads them
/// unrounded.
void roundInProducts(mlir::func::FuncOp entry);

} // namespace cleave::image

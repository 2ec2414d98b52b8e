//===- Dear.h - What is kept rather than computed again ----------------------===//
//
// Of the values that a backward reads some take many operations for each byte, and
// some hardly more than to be read: `recompute=selective` keeps the former, and computes
// the latter again. Which is which is read from interfaces. Example, a block of a model:
//
//   %s = add(%residual, %pending)      kept: one value in place of the two given ones
//   %n = norm(%s)                      again
//   %q = contract(%n, %weight)         a product: not kept, since its one use is
//   %b = add(%q, %bias)                kept: the product with its bias
//   %r = rope(%b)                      again
//   %a = attention(%r, …)              kept: it compares tokens with each other
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// The operands of an operator that compares tokens whose rows it reads along a length that its
/// result lacks: keys, and values last. Nothing for any other operator.
llvm::SmallVector<mlir::Value> comparedRows(mlir::Operation *op);

/// Whether the results of `op`, of a kind of layer, are kept: of matrix products, of what
/// compares tokens with each other, and of what is linear in nothing but such results, or given
/// values, that are read nowhere else: it takes their place.
bool isDear(mlir::Operation *op);

/// Paths of all such operators of `kind`, in order.
llvm::SmallVector<llvm::StringRef> dearPaths(mlir::func::FuncOp kind);

} // namespace cleave

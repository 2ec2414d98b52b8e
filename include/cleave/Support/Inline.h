//===- Inline.h - A function's body in place of its call -------------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Puts the body of the called function, which is one block, in place of `call`.
/// Returns the copied operators in order; fails, and changes nothing, where the
/// function is not there or has no body.
llvm::FailureOr<llvm::SmallVector<mlir::Operation *>> inlineCall(mlir::func::CallOp call);

} // namespace cleave

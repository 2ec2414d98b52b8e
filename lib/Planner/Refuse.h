//===- Refuse.h - Diagnostics of a plan that is refused --------------------===//
//
// See Diagnostics.h for what notes mean to those who show errors to users.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"

namespace cleave {

/// An error at `op`: `text` starts with its kind, `rule` is what holds for every plan.
mlir::InFlightDiagnostic refuse(mlir::Operation *op, const llvm::Twine &text,
                                const llvm::Twine &rule);

/// The same with a value that would work.
llvm::LogicalResult refuse(mlir::Operation *op, const llvm::Twine &text, const llvm::Twine &rule,
                           const llvm::Twine &suggestion);

/// The same for a name that is not among `known`; suggests the nearest.
llvm::LogicalResult refuseName(mlir::Operation *op, const llvm::Twine &text, llvm::StringRef given,
                               const std::vector<std::string> &known);

} // namespace cleave

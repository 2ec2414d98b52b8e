//===- Diagnostics.h - MLIR diagnostics as errors --------------------------===//
//
// Passes report through MLIR diagnostics; users see `rt::Error`. A diagnostic
// that starts with a kind ("plan.unknown_axis: …") is the user's mistake, any
// other is ours. Notes "rule: …" and "suggestion: …" become those of the error.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/LLVM.h"
#include "runtime/Base/Status.h"

namespace cleave {

/// Runs `work` and turns the first error diagnostic into an error if it fails.
rt::Status withDiagnostics(mlir::MLIRContext &context,
                           llvm::function_ref<llvm::LogicalResult()> work);

} // namespace cleave

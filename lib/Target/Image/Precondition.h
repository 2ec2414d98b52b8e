//===- Precondition.h - What can become commands ---------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace cleave::image {

/// The numbers of the stages that `module`, a place in a pipeline, has entries for.
llvm::SmallVector<int64_t> stagesOf(mlir::ModuleOp module);

/// Whether its update returns what is minimised beside the loss.
bool hasObjective(mlir::ModuleOp module);

/// Checks that `module` has the form in which the phase `dist` leaves it; errors
/// stand where it has not.
llvm::LogicalResult checkLowerable(mlir::ModuleOp module);

} // namespace cleave::image

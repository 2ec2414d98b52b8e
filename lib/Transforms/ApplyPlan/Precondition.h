//===- Precondition.h - What a module must be for a plan to be applied -----===//
#pragma once

#include "dialects/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// Whether `module` is an imported and differentiated model, and `solution`'s
/// lists name axes that it has: all that `applyPlan` takes for granted. A
/// diagnostic at the operator at fault says which step is missing. (Whether the
/// plan fits the model is the planner's question.)
llvm::LogicalResult checkApplicable(mlir::ModuleOp module, plan::SolutionOp solution);

} // namespace cleave

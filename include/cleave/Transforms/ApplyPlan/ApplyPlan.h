//===- ApplyPlan.h - Turn decisions into annotated functions ---------------===//
//
// Takes a model with joint graphs and a plan, and builds what a step runs:
//
//   count(targets)                  counts the valid tokens of a micro-batch
//   survey(tokens, targets, positions)   forward alone, adds to what is summed over the
//                                   whole batch (`WholeBatchOpInterface`); only where
//                                   there is such, and several micro-batches
//   prepare() -> valid              valid tokens of the global batch, and their inverse
//   microbatch(tokens, targets, positions)   forward, backward, adds to gradients
//   update(rate, correction1, correction2) -> (loss, norm)   clip and AdamW
//   evaluate(tokens, targets, positions) -> loss    after count and prepare
//
// What they add up (`step.valid`, `step.loss`, gradients) is zero when a step starts.
//
// Each joint graph is split into a forward and a backward function; what the
// backward needs of the forward is saved. Sizes become constants. Types stay
// those of whole tensors: who holds what is written as attributes
// (`dist.factors` on operators, `dist.sharding` on arguments and results,
// `dist.<slot>` on parameters), and later passes carry it out.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include <optional>

namespace cleave {

/// What the update needs to know of a recipe.
struct OptimizerSettings {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weightDecay = 0.1;
  /// Largest gradient norm, or none.
  std::optional<double> clipNorm = 1.0;
};

/// Applies `solution` (already checked) to `module`, which holds joint graphs.
/// `solution` may stand in the module, and stays. Fails, with a diagnostic at the
/// operator at fault and before anything is changed, where the module is not an
/// imported and differentiated model.
llvm::LogicalResult applyPlan(mlir::ModuleOp module, plan::SolutionOp solution,
                              const OptimizerSettings &optimizer);

} // namespace cleave

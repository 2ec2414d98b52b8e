//===- Resize.h - The same layout for a smaller model ----------------------===//
//
// A plan is about divisions: who has which part of what. They mean the same on a smaller
// model, as long as its sizes leave the same rests. This says which sizes those are, and
// carries a plan over to them. Numbers of ranks stay.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include <vector>

namespace cleave {

/// What smaller sizes have to keep of a plan.
struct PlanDivisions {
  /// Ranks that may cut a dimension: all, but those along a pipeline. Sizes keep their rest
  /// modulo this.
  int64_t ways = 1;
  /// The same for tokens of a sequence and for the vocabulary, pieces included.
  int64_t sequence = 1, vocabulary = 1;
  /// Sequences that all ranks take at a time, and how often.
  int64_t rows = 1, microBatches = 1;
  /// Fewer layers of each stage, as uneven as they are; one number without a pipeline.
  /// Embedding and head are not counted. Empty where the model's layers can't be told.
  std::vector<int64_t> stageLayers;
};

/// For `solution` on the model that it was made for, of `layers` layers beside embedding and
/// head.
PlanDivisions divisionsOf(plan::SolutionOp solution, mlir::ModuleOp model, int64_t layers);

/// Rewrites `solution` for the smaller `model`: steps of `global` sequences of `sequence`
/// tokens, pieces and stages as `divisionsOf` counts them, the latter with `stageLayers`.
void resizePlan(plan::SolutionOp solution, mlir::ModuleOp model, int64_t sequence, int64_t global,
                llvm::ArrayRef<int64_t> stageLayers);

} // namespace cleave

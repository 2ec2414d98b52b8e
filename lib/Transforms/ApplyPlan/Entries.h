//===- Entries.h - The functions that a step runs --------------------------===//
#pragma once

#include "cleave/Transforms/ApplyPlan/ApplyPlan.h"
#include "lib/Transforms/ApplyPlan/Split.h"
#include "llvm/ADT/StringMap.h"

namespace cleave {

/// On a parameter: its gradient is summed over ranks in the last of several micro-batches.
inline constexpr llvm::StringLiteral kSumInLastAttr = "dist.sum_in_last";

/// Builds the entries listed in ApplyPlan.h behind the module's last operator,
/// from `@forward`, or the stages of a pipeline, and the split kinds, for steps of
/// `microBatches` micro-batches.
void buildEntries(mlir::ModuleOp module, llvm::StringMap<SplitKind> &kinds,
                  const OptimizerSettings &optimizer, int64_t microBatches);

} // namespace cleave

//===- Overlap.h - Exchanges beside the computation ------------------------===//
//
// Which exchanges may run while layers before or after them compute, and in which
// buckets they travel. A decision that is recorded on the exchanges and carried out by a
// target; see docs/Rationale/Overlap.md.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Dist/Dist.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

/// How many exchanges were put in buckets.
struct OverlapCounts {
  unsigned ahead = 0, behind = 0;
};

/// The most bytes of a bucket: what the module's `dist.overlap` says, else a default.
int64_t bucketBytes(mlir::ModuleOp module);

/// Puts exchanges of repeats in buckets where the module has `dist.overlap`; see the pass.
OverlapCounts decideOverlap(mlir::ModuleOp module);

/// Writes out repeats of layers that run once; returns how many. See the pass.
unsigned writeOutLayers(mlir::ModuleOp module);

/// Places exchanges of blocks that run once and puts them in buckets; see the pass.
OverlapCounts placeExchanges(mlir::ModuleOp module);

#define GEN_PASS_DECL
#include "lib/Transforms/Overlap/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/Overlap/Passes.h.inc"

} // namespace cleave

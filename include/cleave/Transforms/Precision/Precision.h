//===- Precision.h - Types of a plan become casts --------------------------===//
//
// A plan says in which type products compute and results are kept; here that is written
// into the joint graphs. Nothing is decided here, and no later pass has to know of it:
// what is in memory, sent or kept has the type that it says.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

/// Carries out every `plan.precision` of `solution` in the joint graphs of `module`
/// (before they are cut into halves). Returns how many casts were inserted.
unsigned insertCasts(mlir::ModuleOp module, plan::SolutionOp solution);

#define GEN_PASS_DECL
#include "lib/Transforms/Precision/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/Precision/Passes.h.inc"

} // namespace cleave

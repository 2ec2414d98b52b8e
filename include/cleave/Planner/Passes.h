//===- Passes.h - Passes that write and check plans ------------------------===//
//
// Makes the planner usable on IR alone. Programs use Planner.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Planner/Passes.h.inc"
} // namespace cleave

//===- Passes.h - Passes that carry out a plan -----------------------------===//
//
// Makes `applyPlan` usable on IR alone. Programs use ApplyPlan.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "dialects/Plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/ApplyPlan/Passes.h.inc"
} // namespace cleave

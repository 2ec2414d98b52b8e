//===- Phases.h - The phases of a compilation, one function each -----------===//
//
// What `cleave compile` does, in order; each function carries a module from the
// phase before to its own (design: import → grad → plan → apply → dist → exec; pipe beside them).
// Passes inside a phase are listed here and nowhere else. Diagnostics of passes come back as errors
// whose kind is the diagnostic's leading word ("plan.…:").
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Planner/Planner.h"
#include "cleave/Support/Diagnostics.h"
#include "cleave/Target/CPU/KernelCompiler.h"
#include "cleave/Transforms/ApplyPlan/ApplyPlan.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/Base/Status.h"

namespace cleave {

/// nn → grad: a joint graph beside every kind of layer.
rt::Status differentiatePhase(mlir::ModuleOp module);

/// The plan for `model`: read from `planFile`, or if that is empty made from
/// the request's pins; checked either way.
rt::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>>
planPhase(mlir::ModuleOp model, const PlanRequest &request, const std::string &planFile = "");

/// Reads a plan's file, unchecked. Errors: `file.read_failed`, `plan.unreadable`.
rt::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> readPlan(mlir::MLIRContext &context,
                                                         const std::string &file);

/// The solution inside a plan's module.
plan::SolutionOp solutionOf(mlir::ModuleOp plan);

/// plan → pipe: a module with the plan's `pipe.schedule`.
rt::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> pipePhase(mlir::ModuleOp plan);

/// grad → apply: entries with decisions written on them.
rt::Status applyPhase(mlir::ModuleOp module, mlir::ModuleOp plan,
                      const OptimizerSettings &optimizer);

/// apply → dist: the program of one rank.
rt::Status distPhase(mlir::ModuleOp module);

/// dist → exec: commands over memory, and the kernels that they launch.
rt::Status execPhase(mlir::ModuleOp module, const cpu::Profile &profile);

} // namespace cleave

//===- Pipeline.h - From a plan's pipeline to its table --------------------===//
//
// A plan says which layers are which stage, and names a schedule. This writes out
// what each rank does in a step.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Pipe/Pipe.h"
#include "dialects/Plan/Plan.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

/// Writes `pipe.schedule @step` of a checked plan at `b`. Fails with a diagnostic at
/// the plan's line where there is no such schedule or it does not take the stages.
mlir::FailureOr<pipe::ScheduleOp> writeSchedule(mlir::OpBuilder &b, plan::SolutionOp solution);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/Pipeline/Passes.h.inc"

} // namespace cleave

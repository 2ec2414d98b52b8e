//===- Pipeline.h - From a plan's pipeline to tables and programs ----------===//
//
// A plan says which layers are which stage, and names a schedule. This writes out
// what each rank does in a step, and cuts the model into what each rank has.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Dist/Dist.h"
#include "dialects/Pipe/Pipe.h"
#include "dialects/Plan/Plan.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

/// Writes `pipe.schedule @step` of a checked plan at `b`. Fails with a diagnostic at
/// the plan's line where there is no such schedule or it does not take the stages.
mlir::FailureOr<pipe::ScheduleOp> writeSchedule(mlir::OpBuilder &b, plan::SolutionOp solution);

/// Replaces `model` by one module for each place in the pipeline of `solution` (checked),
/// as `cleave-pipeline-cut` describes, and the mesh of all ranks. Fails, and changes
/// nothing, where the stages are not those of the model.
llvm::LogicalResult cutStages(mlir::ModuleOp model, plan::SolutionOp solution);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/Pipeline/Passes.h.inc"

} // namespace cleave

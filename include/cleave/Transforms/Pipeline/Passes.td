//===- Passes.td - Passes that make a plan's pipeline ----------------------===//
#ifndef CLEAVE_PIPELINE_PASSES
#define CLEAVE_PIPELINE_PASSES
include "mlir/Pass/PassBase.td"

def WriteSchedulePass : Pass<"cleave-pipeline-schedule", "::mlir::ModuleOp"> {
  let summary = "Write the schedule of the module's plan as a table";
  let description = [{
    Puts a `pipe.schedule @step` at the end of the module, in place of one that is
    there: what each rank of the `plan.pipeline` does in a step, in order. A plan
    without a pipeline is one stage on one rank. Nothing else is changed.

    Precondition: one `plan.solution`, which passes `cleave-plan-check`.
  }];
  let dependentDialects = ["::cleave::pipe::PipeDialect"];
}

#endif

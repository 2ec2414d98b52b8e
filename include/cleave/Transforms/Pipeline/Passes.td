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

def CutStagesPass : Pass<"cleave-pipeline-cut", "::mlir::ModuleOp"> {
  let summary = "Cut the model into the programs of its plan's pipeline";
  let description = [{
    Leaves the mesh of all ranks and a module for each place along the pipeline's axis,
    with the kinds and parameters that its stages use, and a function for each stage:

    ```mlir
    func.func @stage.1(%tokens, %targets, %positions, %scale, %inputs…) -> outputs…
        attributes {nn.stage = 1 : i64}
    ```

    which is the part of `@forward` with the layers that `plan.stage` gives it. A
    parameter of many layers becomes one of those that the stage has. One that other
    places have too (`plan.shared`) names them in `pipe.sharers`. A module has `pipe.index`,
    its place of `pipe.ranks` along `pipe.axes`, and `pipe.stages`, the number of all
    stages. Where the module holds a schedule that keeps gradients of weights apart,
    `pipe.weights_apart` says so; where `@forward` returns more than the loss, `pipe.terms`
    does. `pipe.surveyed` is how many of the first stages have, or lead to, sums over the whole
    batch (`WholeBatchOpInterface`), if there are any.

    Precondition: a model with `@forward`, and one `plan.solution` with a pipeline, which
    passes `cleave-plan-check`.
  }];
  let dependentDialects = ["::cleave::dist::DistDialect", "::cleave::pipe::PipeDialect"];
}

#endif

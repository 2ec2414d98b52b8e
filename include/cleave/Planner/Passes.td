//===- Passes.td - Passes that write and check plans -----------------------===//
#ifndef CLEAVE_PLANNER_PASSES
#define CLEAVE_PLANNER_PASSES
include "mlir/Pass/PassBase.td"

def WritePlanPass : Pass<"cleave-plan", "::mlir::ModuleOp"> {
  let summary = "Write a plan for the module's kinds of layers";
  let description = [{
    Puts a `plan.solution` at the end of the module, in place of one that is
    there: the plan that `cleave plan` makes of the same request. Nothing else is
    changed.

    `--cleave-plan="ranks=4 sequence=8 global-batch=4 pins=dp=2,tp=2"`
  }];
  let options = [
    Option<"ranks", "ranks", "int64_t", "1", "Ranks of the cluster">,
    Option<"sequence", "sequence", "int64_t", "1", "Tokens of a sequence">,
    Option<"globalBatch", "global-batch", "int64_t", "1", "Sequences of a step">,
    Option<"pins", "pins", "std::string", "\"\"", "What is fixed, as for --pin">,
    Option<"cluster", "cluster", "std::string", "\"\"", "Name of the cluster, for the record">,
  ];
  let dependentDialects = ["::cleave::plan::PlanDialect"];
}

def CheckPlanPass : Pass<"cleave-plan-check", "::mlir::ModuleOp"> {
  let summary = "Check that the module's plan can be carried out on it";
  let description = [{
    Fails, at the plan's own line, where the `plan.solution` in the module names
    a kind, path, factor, parameter or axis that is not there, cuts what cannot be
    cut, uses an axis twice, or does not fit the ranks or the batch. Changes
    nothing.
  }];
  let options = [Option<"ranks", "ranks", "int64_t", "1", "Ranks of the cluster">];
  let dependentDialects = ["::cleave::plan::PlanDialect"];
}

#endif

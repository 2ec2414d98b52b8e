//===- Passes.td - Passes that carry out a plan ----------------------------===//
#ifndef CLEAVE_TRANSFORMS_APPLYPLAN
#define CLEAVE_TRANSFORMS_APPLYPLAN
include "mlir/Pass/PassBase.td"

def ApplyPlanPass : Pass<"cleave-apply", "::mlir::ModuleOp"> {
  let summary = "Build what a step runs, with the module's plan written on it";
  let description = [{
    Takes the `plan.solution` that stands in the module and removes it. Joint
    graphs are split into a forward and a backward function, `@forward` becomes
    the entries `count`, `prepare`, `microbatch`, `update` and `evaluate`, sizes
    become constants, and what the plan decides becomes attributes
    (`dist.factors`, `dist.sharding`, `dist.<slot>`).

    Precondition: `cleave-autodiff-differentiate`, and one plan that
    `cleave-plan-check` accepts. A module without a plan is refused.
  }];
  let options = [
    Option<"beta1", "beta1", "double", "0.9", "AdamW: decay of the first moment">,
    Option<"beta2", "beta2", "double", "0.95", "AdamW: decay of the second moment">,
    Option<"eps", "eps", "double", "1e-8", "AdamW: added to the root of the second moment">,
    Option<"weightDecay", "weight-decay", "double", "0.1", "AdamW: weight decay">,
    Option<"clipNorm", "clip-norm", "double", "1.0", "Largest gradient norm; 0: none">,
  ];
  let dependentDialects = ["::cleave::dist::DistDialect", "::cleave::nn::NNDialect",
                           "::cleave::plan::PlanDialect", "::mlir::func::FuncDialect"];
}

#endif

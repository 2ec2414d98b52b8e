//===- Passes.td - Passes that build gradients -----------------------------===//
#ifndef CLEAVE_TRANSFORMS_AUTODIFF
#define CLEAVE_TRANSFORMS_AUTODIFF
include "mlir/Pass/PassBase.td"

def DifferentiateKindsPass : Pass<"cleave-autodiff-differentiate", "::mlir::ModuleOp"> {
  let summary = "Build the joint forward and backward graph of every kind of layer";
  let description = [{
    For each function `@k` with the attribute `nn.kind`, adds `@k.joint`, which
    takes k's arguments and then the gradients of its *active* results, and
    returns k's results and then the gradients of its active arguments. A value
    is active if it depends on a parameter that is trained. Backward operators
    may use any forward value. `nn.joint.results` and `nn.joint.arguments` list
    the positions of the active results and arguments in k. A kind that has a joint
    graph already, or that no entry calls, is left alone.

    Operators are differentiated through `DifferentiableOpInterface` alone, and a
    backward operator carries the `nn.path` of the operator that it belongs to.
  }];
  let dependentDialects = ["::cleave::nn::NNDialect", "::mlir::func::FuncDialect"];
  let statistics = [Statistic<"numBackward", "backward-operators", "Backward operators built">];
}

#endif

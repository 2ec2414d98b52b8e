//===- Passes.td - Passes that carry out types -----------------------------===//
#ifndef CLEAVE_PRECISION_PASSES
#define CLEAVE_PRECISION_PASSES
include "mlir/Pass/PassBase.td"

def InsertCastsPass : Pass<"cleave-precision-insert-casts", "::mlir::ModuleOp"> {
  let summary = "Writes the types of a plan into joint graphs as casts";
  let description = [{
    For each `plan.precision` of the plan in the module: operands of the path's products
    (`MixedPrecisionOpInterface`) are rounded, and so are those results of its other
    operators that products take or the backward half reads. A value is rounded once, where
    it is made, and each reader widens it for itself, so that what is kept and sent is the
    narrow one. Products take it as it is; those of the forward half that compute in f32 take
    the value before it is rounded. Parameters are rounded in each half anew, and so are
    never kept twice.

    ```mlir
    %h = nn.silu %g {nn.path = "mlp.act"} : (tensor<…xf32, …>) -> tensor<…xf32, …>
    %y = nn.contract %h, %w {nn.path = "mlp.down"} : (…xf32, …xf32) -> …xf32
    ```
    becomes
    ```mlir
    %h = nn.silu %g {nn.path = "mlp.act"} : (tensor<…xf32, …>) -> tensor<…xf32, …>
    %h16 = nn.cast %h {nn.path = "mlp.act"} : (tensor<…xf32, …>) -> tensor<…xbf16, …>
    %w16 = nn.cast %w : (tensor<…xf32, …>) -> tensor<…xbf16, …>
    %y = nn.contract %h16, %w16 {nn.path = "mlp.down"} : (…xbf16, …xbf16) -> …xf32
    ```
  }];
  let statistics = [Statistic<"numCasts", "casts", "Casts inserted">];
  let dependentDialects = ["::cleave::nn::NNDialect", "::cleave::plan::PlanDialect"];
}

#endif

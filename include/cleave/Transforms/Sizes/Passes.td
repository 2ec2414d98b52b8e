//===- Passes.td - Passes that settle sizes --------------------------------===//
#ifndef CLEAVE_SIZES_PASSES
#define CLEAVE_SIZES_PASSES
include "mlir/Pass/PassBase.td"

def SpecializeSizesPass : Pass<"cleave-sizes-specialize", "::mlir::ModuleOp"> {
  let summary = "Turns named dynamic sizes into constants";
  let description = [{
    Every `?` of a dimension that the option names becomes the constant, in the
    types of all values, in signatures and in attributes. Sizes that are already
    static stay. What is not named stays dynamic.

    `--cleave-sizes-specialize=sizes=batch:8,sequence:32` makes
    `tensor<?x?x64xf32, #nn.dims<batch, sequence, model>>` a
    `tensor<8x32x64xf32, #nn.dims<batch, sequence, model>>`.
  }];
  let options = [
    ListOption<"sizes", "sizes", "std::string", "name:size, separated by commas">,
  ];
}

#endif

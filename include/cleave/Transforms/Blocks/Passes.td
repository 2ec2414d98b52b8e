//===- Passes.td - Passes that run parts of a program block by block --------===//
#ifndef CLEAVE_BLOCKS_PASSES
#define CLEAVE_BLOCKS_PASSES
include "mlir/Pass/PassBase.td"

def RunInBlocksPass : Pass<"cleave-blocks-run", "::mlir::ModuleOp"> {
  let summary = "Go through a dimension in blocks, where a function says so";
  let description = [{
    A call of a function with `nn.blocks = {vocab = 8}` becomes its body, in which
    whatever has the dimension is done in a repeat of 8 blocks: inner values are of a
    block's size, sums are carried on. Rows of parameters are read and added to where
    they are kept. Blocks are of ceil(n / 8) indices; a shorter one comes after the
    repeat.

    Precondition: `cleave-partition`. Afterwards no such function is left.
  }];
  let dependentDialects = ["::cleave::nn::NNDialect"];
}

#endif

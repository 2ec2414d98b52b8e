//===- Blocks.h - Parts of a program that run block by block ---------------===//
//
// Runs on one rank's program, where all sizes are local. What goes in blocks is
// recorded on functions as `nn.blocks`, a dictionary of one dimension and the number
// of its blocks; operators are known by their interfaces alone.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/NN/NN.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

/// Puts the bodies of all functions with `nn.blocks` in place of their calls and goes
/// through the dimension in blocks. Fails where operators do not allow it, where
/// blocks would have to be uneven and a value along the dimension is neither read
/// from nor added to a kept tensor.
llvm::LogicalResult runInBlocks(mlir::ModuleOp module);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/Blocks/Passes.h.inc"

} // namespace cleave

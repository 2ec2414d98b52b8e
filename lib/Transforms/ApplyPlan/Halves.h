//===- Halves.h - The two halves of a stage as functions of their own ------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// What the two halves of a function take and return.
struct HalvesRequest {
  /// The last operator of the first half.
  mlir::Operation *last = nullptr;
  llvm::SmallVector<mlir::Value> firstResults, secondResults;
  llvm::SmallVector<std::string> firstNames, secondNames;
  /// The arguments from this number on are of the second half alone.
  unsigned secondArguments = 0;
};

/// Moves the operators of `whole` (which has no terminator yet) behind `request.last`
/// to a new function `name` right behind it, which takes the same arguments. What the
/// second half reads of the first is returned by it as "tape.<n>" (`nn.name`, marked
/// `nn.tape`) and becomes an argument that lies as that result (`dist.as`); what reads
/// kept tensors is copied instead. Arguments that a half has no use for go.
mlir::func::FuncOp cutInHalves(mlir::func::FuncOp whole, llvm::StringRef name,
                               const HalvesRequest &request);

} // namespace cleave

//===- Parts.h - The parts of a stage's work as functions of their own -----===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// One part of a function's operators, which follow those of the part before.
struct EntryPart {
  std::string name;
  /// Its last operator; null: the part has none.
  mlir::Operation *last = nullptr;
  /// What it returns, and what that is called.
  llvm::SmallVector<mlir::Value> results;
  llvm::SmallVector<std::string> names;
  /// The arguments of the whole that it takes whether it needs them or not: from one
  /// number to before another.
  unsigned firstArgument = 0, endArgument = 0;
};

/// Cuts `whole`, which has no terminator, into `parts`: functions of their own behind
/// it, in its place. What one reads of another is returned by that as "tape.<n>"
/// (`nn.name`, marked `nn.tape`), or as what it is returned as anyway, and is an argument
/// that lies as that result (`dist.as`). What only reads kept tensors is copied instead.
void cutInParts(mlir::func::FuncOp whole, llvm::MutableArrayRef<EntryPart> parts);

} // namespace cleave

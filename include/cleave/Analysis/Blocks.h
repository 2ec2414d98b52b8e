//===- Blocks.h - Can operators go through a dimension in blocks? ----------===//
//
// A dimension that only inner values of a kind have, as the vocabulary, can be gone
// through block by block: inner values are then of a block's size, sums over the
// dimension are added up, and operators that gather results up in a way of their own
// say how (BlockwiseOpInterface). Operators are asked by their interfaces alone.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Analysis/Chunks.h"

namespace cleave {

/// Operators of one block of IR, by when they run.
struct BlockSplit {
  /// Those that are done for each block, in order.
  llvm::SmallVector<mlir::Operation *> inside;
  /// Those that need what all the blocks gave. All others can run before.
  llvm::SmallVector<mlir::Operation *> after;
};

/// Tells the operators `ops`, in order, apart for blocks along `dim`. Returns why
/// they cannot go in blocks, or nothing.
std::optional<ChunkObstacle> splitForBlocks(llvm::ArrayRef<mlir::Operation *> ops,
                                            llvm::StringRef dim, BlockSplit &split);

/// Why the kind whose joint graph is `joint` cannot go through `dim` in blocks, in
/// its forward and in its backward, which computes again what has the dimension.
/// Nothing if it can.
std::optional<ChunkObstacle> findBlockObstacle(mlir::func::FuncOp joint, llvm::StringRef dim);

/// The operators that `roots` depend on, in the block that computes them.
llvm::DenseSet<mlir::Operation *> dependenciesOf(mlir::ValueRange roots);

} // namespace cleave

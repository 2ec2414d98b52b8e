//===- Chunks.h - Can a kind of layer run piece by piece? ------------------===//
//
// A kind whose forward and backward stand next to each other, as those of the
// classifier and loss do, can take a few sequences or positions at a time: what it
// holds between the two is then of one piece's size. That is right if its results
// are sums over the pieces, the gradients of its parameters too, and the gradients
// of what it is given in pieces come out in pieces. The operators' sharding rules
// say so; none is named here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <optional>
#include <string>

namespace cleave {

/// Why a kind cannot run in pieces, and where.
struct ChunkObstacle {
  mlir::Operation *op;
  std::string reason;
};

/// Looks at `joint`, the joint graph of a kind, cut into pieces along the dimension
/// `dim`. Nothing if it can be.
std::optional<ChunkObstacle> findChunkObstacle(mlir::func::FuncOp joint, llvm::StringRef dim);

} // namespace cleave

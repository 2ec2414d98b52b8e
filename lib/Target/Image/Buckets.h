//===- Buckets.h - What runs in the turns of a bucket ----------------------===//
//
// An exchange that comes ahead of its iteration needs its operand as early, and what is
// made of the result of one that stays behind comes as late. These operators are the
// bucket's companions. They are marked before kernels are made, so that none of them is in
// one kernel with what runs in the iteration's own turn. A bucket of a block that runs once
// has none: what belongs to it runs where it stands.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave::image {

/// Gives companions the number of their bucket as `fusion.apart`. Fails where an operator
/// would be one of two buckets, or the companion of one needs what this turn makes.
llvm::LogicalResult markCompanions(mlir::func::FuncOp entry);

} // namespace cleave::image

//===- Placements.h - Where the values of a distributed program lie --------===//
//
// A program after `dist` has blocks of values and says nothing of the whole ones. What
// propagation decided is read before, by operator, and matched with the operators that
// compute the blocks.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Dist/Dist.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/Base/Status.h"
#include "llvm/ADT/DenseMap.h"
#include <map>

namespace cleave {

/// The results of an operator of one function: whole types, and how they lie.
struct Placed {
  int64_t origin = 0;
  llvm::SmallVector<mlir::RankedTensorType> types;
  llvm::SmallVector<dist::ShardingAttr> shardings;
};

/// Operators of a program that compute blocks of values, with those.
using PlacedOps = llvm::DenseMap<mlir::Operation *, const Placed *>;

/// What propagation says of the operators of one plan.
class Placements {
public:
  /// From a module after `apply`, which is left as it is.
  static rt::StatusOr<Placements> read(mlir::ModuleOp applied);

  /// The operators of `program`, the applied module after `dist`.
  PlacedOps locate(mlir::ModuleOp program) const;
  /// The same in `edited`, a copy of `program` without its locations, in which operators
  /// may have been added and taken away: the nth of a function with a path and a name is
  /// taken for the nth there, if it has the types of its blocks.
  PlacedOps locateEdited(mlir::ModuleOp edited, mlir::ModuleOp program) const;

private:
  /// Number of the part, function, number of the operator.
  std::map<std::tuple<size_t, std::string, int64_t>, Placed> placed;
};

} // namespace cleave

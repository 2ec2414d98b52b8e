//===- Plan.h - The plan dialect -------------------------------------------===//
//
// A chosen plan as IR: the file that users read and write. See Plan.td.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"

#include "dialects/Plan/PlanDialect.h.inc"
#define GET_OP_CLASSES
#include "dialects/Plan/PlanOps.h.inc"

namespace cleave::plan {

/// The newest version of the plan format that this build reads.
inline constexpr int64_t kVersion = 1;

/// The axes of a plan by name, with parts. `expand("tensor")` gives
/// ["tensor.0", "tensor.1"] for an axis of two parts.
class AxisTable {
public:
  explicit AxisTable(SolutionOp solution);

  /// Mesh axes, major to minor, and their sizes.
  llvm::SmallVector<mlir::StringAttr> names;
  llvm::SmallVector<int64_t> sizes;

  /// The mesh axes that an axis or part stands for; empty if there is none.
  llvm::SmallVector<mlir::StringAttr> expand(llvm::StringRef name) const;
  /// All of a list, in order.
  llvm::SmallVector<mlir::StringAttr> expand(mlir::ArrayAttr list) const;
  int64_t size(mlir::StringAttr meshAxis) const;
  /// Product over `meshAxes`; the largest number where it is beyond that.
  int64_t size(llvm::ArrayRef<mlir::StringAttr> meshAxes) const;
  /// How many ways `places`, which may be null, cut the dimension `dim`.
  int64_t ways(mlir::DictionaryAttr places, llvm::StringRef dim) const;
};

/// The one entry of a kind in a solution, or null.
template <typename Op> Op entry(SolutionOp solution) {
  auto ops = solution.getOps<Op>();
  return ops.empty() ? Op() : *ops.begin();
}

/// The mesh axes that deal out tokens: those that cut the batch between layers, and
/// those that cut the sequence there and no other factor of any operator. Parameters
/// are whole along them where they are used.
llvm::SmallVector<mlir::StringAttr> tokenAxes(SolutionOp solution);

} // namespace cleave::plan

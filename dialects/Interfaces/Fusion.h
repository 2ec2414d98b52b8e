//===- Fusion.h - What an operator says about kernels ----------------------===//
//
// The values that FusionOpInterface speaks in: which dimensions of a result tie
// its elements together, and what a kernel needs beside the operator's operands.
// Nothing here knows an operator, a target or how kernels are grouped.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"

namespace cleave {

/// How the elements of one result hang together, by dimension of the result.
/// Along a dimension in neither list, element i of the result needs only element
/// i of every operand that has a dimension of that name.
struct FusionDims {
  /// Dimensions along which an element of the result needs other elements of an
  /// operand (the width of a norm). They are never rows, and keep a loop of
  /// their own.
  llvm::SmallVector<int64_t> mixed;
  /// Dimensions that keep a loop of their own, since the operator counts
  /// positions along them.
  llvm::SmallVector<int64_t> apart;
  /// The body is a form that kernel compilers know as a whole (rows added up by
  /// index): with others in its kernel it would become plain loops.
  bool alone = false;
};

/// A tensor that a body needs beside the operator's operands: a table of
/// constants, or where this rank stands along some axes of a mesh.
struct BodyInput {
  mlir::RankedTensorType type;
  /// The elements of a table; null: the input is a rank's coordinate.
  mlir::DenseElementsAttr table;
  /// A coordinate: tensor<i32>, the rank's position along `axes` of `mesh`,
  /// major to minor.
  mlir::FlatSymbolRefAttr mesh;
  mlir::ArrayAttr axes;

  static BodyInput ofTable(mlir::DenseElementsAttr table) {
    return {llvm::cast<mlir::RankedTensorType>(table.getType()), table, {}, {}};
  }
  static BodyInput coordinate(mlir::FlatSymbolRefAttr mesh, mlir::ArrayAttr axes) {
    auto i32 = mlir::IntegerType::get(mesh.getContext(), 32);
    return {mlir::RankedTensorType::get({}, i32), {}, mesh, axes};
  }
  bool operator==(const BodyInput &other) const {
    return type == other.type && table == other.table && mesh == other.mesh && axes == other.axes;
  }
};

} // namespace cleave

//===- Body.h - Kernel bodies by dimension names ---------------------------===//
//
// What the operators' `buildBody` are written with: elementwise maps and sums as
// linalg.generic whose loops are found by the names in the tensors' types. It
// does not know which dimensions are rows or how kernels are cut.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Interfaces/BodyScalar.h"
#include "dialects/NN/NN.h"

namespace cleave::nn {

/// One element of a body: the operands' elements there, and where it is.
class BodyPoint {
public:
  BodyPoint(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<mlir::StringAttr> loops,
            mlir::ValueRange elements)
      : builder(builder), loc(loc), loops(loops), elements(elements) {}

  BodyScalar operator[](size_t operand) const { return {builder, loc, elements[operand]}; }
  /// Position along the dimension called `name` (one must be), as i32.
  BodyScalar position(mlir::StringAttr name) const;
  /// An f32 constant.
  BodyScalar number(double value) const;
  /// An i32 constant.
  BodyScalar integer(int64_t value) const;

  mlir::OpBuilder &builder;
  mlir::Location loc;

private:
  llvm::ArrayRef<mlir::StringAttr> loops;
  mlir::ValueRange elements;
};

/// Builds linalg operations on tensors with named dimensions.
class Body {
public:
  using Formula = llvm::function_ref<BodyScalar(const BodyPoint &)>;

  Body(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  /// A tensor of type `type`, elementwise; operands are broadcast by name.
  mlir::Value map(mlir::RankedTensorType type, mlir::ValueRange operands, Formula formula);
  /// Sums `term` over the dimensions that operands have and `type` lacks.
  mlir::Value sum(mlir::RankedTensorType type, mlir::ValueRange operands, Formula term);
  /// The largest `term` over those dimensions.
  mlir::Value max(mlir::RankedTensorType type, mlir::ValueRange operands, Formula term);

private:
  enum class Combine { None, Sum, Max };
  mlir::Value generic(mlir::RankedTensorType type, mlir::ValueRange operands, Formula formula,
                      Combine combine);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

/// f32 with the dimensions of `type` that `other` lacks.
mlir::RankedTensorType without(mlir::RankedTensorType type, mlir::RankedTensorType other);

/// The sum of the `count` offsets that are the operands from `at` on of the point.
BodyScalar offsetAt(const BodyPoint &point, size_t at, size_t count);

/// What a sum of a large `input` to a scalar should make first: one partial sum
/// for each index of leading dimensions. Null where one step is good enough.
mlir::RankedTensorType partialSums(mlir::RankedTensorType input, mlir::RankedTensorType result);

} // namespace cleave::nn

//===- PickedMatmul.h - A product with picked matrices as a command --------===//
#pragma once

#include "dialects/Interfaces/Interfaces.h"

namespace cleave::image {

/// The sizes of a picked contraction on local, static shapes.
struct PickedProduct {
  /// Products added to the matrix that is picked, instead of rows times that matrix.
  bool isOuter = false;
  /// [rows, n, k, matrices], or [rows, m, n, matrices] of an outer product.
  llvm::SmallVector<int64_t> sizes;
  /// How many rows of the index share one row of each operand.
  int64_t shareA = 1, shareB = 1;
  /// Of the picked matrices: from one to the next, along k, along n.
  llvm::SmallVector<int64_t> strides;

  /// If every row picks a matrix that is there.
  int64_t flops() const { return 2 * sizes[0] * sizes[1] * sizes[2]; }
};

/// Fails, with an error, where a matrix's rows or columns lie apart.
mlir::FailureOr<PickedProduct> pickedProductOf(PickedContractionOpInterface op);

} // namespace cleave::image

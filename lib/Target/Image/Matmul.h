//===- Matmul.h - A contraction as strided matrix products -----------------===//
#pragma once

#include "dialects/Interfaces/Interfaces.h"

namespace cleave::image {

/// c[m × n] = a[m × k] · b[k × n] for every index of the batch.
struct MatrixProduct {
  /// Strides of rows and columns, in elements.
  llvm::SmallVector<int64_t, 2> a, b, c;
  int64_t m = 1, n = 1, k = 1;
  /// For each dimension of the batch its count and the strides of a, b and c.
  llvm::SmallVector<int64_t> batch;

  int64_t flops() const;
};

/// The matrix product that `op` (a ContractionOpInterface on local, dense tensors)
/// is. Fails, with a diagnostic, where the summed dimensions do not lie together in
/// memory.
mlir::FailureOr<MatrixProduct> matmulOf(mlir::Operation *op);

} // namespace cleave::image

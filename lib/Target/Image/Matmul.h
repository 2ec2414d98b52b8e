//===- Matmul.h - A contraction as strided matrix products -----------------===//
#pragma once

#include "dialects/Interfaces/Interfaces.h"
#include "runtime/Schema/Program.h"

namespace cleave::image {

/// Sizes and strides of the matrix product that `op` (a ContractionOpInterface
/// on local, dense tensors) is; regions are left empty. Fails, with a
/// diagnostic, where the summed dimensions do not lie together in memory.
mlir::FailureOr<rt::MatmulCommand> matmulOf(mlir::Operation *op);

} // namespace cleave::image

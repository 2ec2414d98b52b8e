//===- LinalgReference.h - kernels in float64, op by op ---------*- C++ -*-===//
//
// Interprets a kernel function as it is written, one op after another, loops in
// order, numbers in float64 (bf16 and i32 keep their meaning). Shares nothing with
// the planner of kernels: the independent side of comparisons.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <vector>

namespace cleave::test {

/// The elements of a tensor, row-major.
using Elements = std::vector<double>;

/// Results of `kernel` on `arguments` (all of them: destinations hold the old
/// contents). Failure, with an error at the op, for what it doesn't know.
mlir::FailureOr<std::vector<Elements>> interpretKernel(mlir::func::FuncOp kernel,
                                                       const std::vector<Elements> &arguments);

} // namespace cleave::test

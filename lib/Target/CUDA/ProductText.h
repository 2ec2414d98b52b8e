//===- ProductText.h - matrix products as CUDA text -------------*- C++ -*-===//
//
// A kernel for each form of product (`exec.matmul`): types, sizes, strides, batch, and
// whether it adds, as constants of a struct that Text/Product.cuh computes by:
//
//   struct product_0_problem {
//     typedef bf16 Operand;
//     static constexpr int m = 256, n = 64, k = 64;
//     …
//   extern "C" __global__ void … product_0(const bf16 *in0, const bf16 *in1, float *out0)
//
// In bf16 by tensor cores, in f32 by multiply-adds, both with sums in f32.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Target/CUDA/EmitText.h"
#include "dialects/Exec/Exec.h"

namespace cleave::cuda {

/// The text of one kernel but for its name, which stands as $name, and its grid.
struct ProductText {
  std::string text;
  int64_t blocks = 1;
  unsigned threads = 1;
};

/// The kernel of `op`; none where nothing is to be computed, or too much for one grid.
std::optional<ProductText> textOf(exec::MatmulOp op);

} // namespace cleave::cuda

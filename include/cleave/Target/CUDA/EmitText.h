//===- EmitText.h - fused kernels as CUDA C++ text --------------*- C++ -*-===//
//
// Prints the kernels of a module (see cleave/Target/CPU/KernelCompiler.h for what
// they hold) as readable CUDA C++, from the same plan that the CPU's code is made
// of:
//
//   extern "C" __global__ void __launch_bounds__(128)
//   norm(const float *__restrict__ in0, const float *__restrict__ in1, float *__restrict__ out0)
//
// Arguments are the kernel's, in order; buffers are dense, row-major and aligned to
// 16 bytes. A row is computed by a *team*: a block, a warp, or the threads of a
// column of a block; elementwise kernels go over a grid of single elements. Every
// sum has one order of additions, whatever the scheduler does.
//
// The text needs no header and holds no inline assembly: nvcc, NVRTC and the SIMT
// shim of the tests compile the same bytes. Nothing here compiles or launches it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"
#include <cstdint>
#include <string>
#include <vector>

namespace cleave::cuda {

/// How a kernel is launched: one-dimensional, no dynamic shared memory.
struct Launch {
  std::string kernel;
  int64_t blocks = 1;
  unsigned threads = 1; ///< in a block
};

struct Text {
  std::string source;
  std::vector<Launch> launches; ///< in the module's order
};

/// Prints every function of `kernels` that has `cleave.outputs`; others are named
/// in a comment. Leaves the module as it is. A kernel that
/// can't be printed is an error "emit.cuda_unsupported: …" with its name. Kernels of
/// one's `own` come behind them.
mlir::FailureOr<Text> emitCuda(mlir::ModuleOp kernels, const Text &own = {});

/// The source alone.
mlir::FailureOr<std::string> emitCudaText(mlir::ModuleOp kernels);

} // namespace cleave::cuda

//===- KernelCompiler.h - fused kernels to x86 object code ------*- C++ -*-===//
//
// Turns fused kernel functions (linalg on tensors) into x86 machine code that
// the runtime's thread pool calls on slices of an outer parallel dimension.
//
// A kernel is a `func.func` with static f32, bf16 and i32 tensors (bf16 only in
// storage: bodies extend it to f32)
//
//   func.func @norm(%x: tensor<64x768xf32>, %w: tensor<768xf32>, %y: tensor<64x768xf32>)
//       -> tensor<64x768xf32> attributes {cleave.outputs = 1 : i64, cleave.space = 64 : i64}
//
// whose last `cleave.outputs` arguments are the destinations of its results,
// in order, and whose results all have the outer dimension, of extent
// `cleave.space`, first. It becomes
//
//   extern "C" void norm(void *const *args, int64_t begin, int64_t end);
//
// over dense row-major operands, which computes the slice [begin, end) of that
// dimension, allocates nothing, keeps no state, and gives the same bits however
// the range is cut. Two calls may run at the same time on disjoint slices.
//
// A destination argument may be read: it then stands for the old contents
// (in-place updates), element by element. Other operands must not overlap a
// destination.
//
// Bodies are linalg ops (generic, fill, named ops with a generic form) with arith
// and math in them, slices and reshapes between them, `tensor.extract` from an
// argument for gathers. A sum over t of `select(ids[t] == row, x[t, ...], 0)` in
// which `row` is the index of the outer loop is a scatter: it costs one pass over
// t, adding to the rows that ids name, in the order of t.
//
// This is not a general linalg compiler: matrix products and attention go to
// libraries and kernels of their own, and what it cannot compile it refuses with
// an error that names the kernel.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Target/Kernel/Contract.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>
#include <string>

namespace mlir {
class DialectRegistry;
class OpPassManager;
} // namespace mlir

namespace cleave::cpu {

using target::kOutputsAttr;
using target::kSpaceAttr;

/// An instruction-set profile: the machine an image is built for. The code needs
/// all of `features` and is never compiled for the host by accident.
struct Profile {
  std::string name;          ///< what users write: "avx2", "avx512"
  std::string machine;       ///< what the runtime asks of its host: "x86-64-v3"
  std::string cpu;           ///< LLVM's name of the processor to schedule for
  std::string features;      ///< LLVM's feature string, "+avx2,+fma"
  unsigned lanes = 8;        ///< f32 elements in one vector register
  bool roundsToBF16 = false; ///< an instruction rounds f32 to bf16

  /// Haswell and later, every Zen.
  static Profile avx2();
  /// Skylake server and later, Zen 4 and later.
  static Profile avx512();
  /// The same with AVX512_BF16: Cooper Lake, Sapphire Rapids, Zen 4 and later.
  static Profile avx512Bf16();
  /// The profile called `name`, or failure if there is none.
  static mlir::FailureOr<Profile> byName(llvm::StringRef name);
};

/// Adds the dialects, models of interfaces and translations that the functions
/// below need in a context.
void registerKernelDialects(mlir::DialectRegistry &registry);

/// Adds to `pm` (on a module) the passes that rewrite every kernel in it to the
/// LLVM dialect. Functions without `cleave.outputs` are lowered as they are.
void buildKernelPipeline(mlir::OpPassManager &pm, const Profile &profile);

/// Rewrites every kernel of `module` in place to the LLVM dialect. On failure a
/// diagnostic names the kernel and the module is left half-way.
mlir::LogicalResult lowerKernels(mlir::ModuleOp module, const Profile &profile);

/// Makes a relocatable ELF object of a module that `lowerKernels` has lowered
/// (it lowers first if kernels are left). Errors are reported at the module.
mlir::FailureOr<std::unique_ptr<llvm::MemoryBuffer>> compileObject(mlir::ModuleOp module,
                                                                   const Profile &profile);

/// Registers the passes of this library for textual pipelines:
/// `cleave-cpu-lower-kernels{profile=avx2}` (linalg to loops over vectors) and
/// `cleave-cpu-approximate-math`, and the pipeline `cleave-cpu-kernels`.
void registerKernelPasses();

} // namespace cleave::cpu

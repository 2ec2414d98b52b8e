//===- Passes.td - passes of the CPU kernel compiler -------*- tablegen -*-===//

#ifndef CLEAVE_TARGET_CPU_PASSES
#define CLEAVE_TARGET_CPU_PASSES

include "mlir/Pass/PassBase.td"

def LowerKernelsPass : Pass<"cleave-cpu-lower-kernels", "mlir::ModuleOp"> {
  let summary = "Rewrite fused kernel functions to loops over vectors";
  let description = [{
    Replaces every function with `cleave.outputs` (linalg on tensors, see
    KernelCompiler.h) by one of type `(!llvm.ptr, i64, i64) -> ()`: pointers to the
    operands and a range of the outer dimension. The body is a loop over rows with
    loops over vectors in it; nothing is allocated but fixed stack buffers.
    Fails, naming the kernel, if one cannot be compiled.
  }];
  let options = [Option<"profile", "profile", "std::string", "\"avx2\"",
                        "Instruction set to write vectors for: avx2, avx512 or avx512-bf16">];
  let dependentDialects = ["mlir::arith::ArithDialect", "mlir::func::FuncDialect",
                           "mlir::linalg::LinalgDialect", "mlir::LLVM::LLVMDialect",
                           "mlir::math::MathDialect", "mlir::scf::SCFDialect",
                           "mlir::tensor::TensorDialect", "mlir::vector::VectorDialect"];
}

def ApproximateMathPass : Pass<"cleave-cpu-approximate-math"> {
  let summary = "Replace exp, log, tanh, erf and rsqrt on f32 by arithmetic";
  let description = [{
    Polynomials with a relative error of at most 1e-6 over the whole range, on
    scalars and vectors alike (the same bits for both). `rsqrt` becomes 1 / sqrt,
    NaN-propagating minima and maxima become two selects, and casts between
    bf16 and f32 integer arithmetic (rounding to nearest even), where no instruction
    does it.
  }];
  let options = [Option<"keepBF16Casts", "keep-bf16-casts", "bool", "false",
                        "Leave casts between bf16 and f32 to the code generator">];
  let dependentDialects = ["mlir::arith::ArithDialect", "mlir::math::MathDialect",
                           "mlir::vector::VectorDialect"];
}

#endif // CLEAVE_TARGET_CPU_PASSES

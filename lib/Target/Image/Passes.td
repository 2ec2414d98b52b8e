//===- Passes.td - passes on the way to an image -----------*- tablegen -*-===//

#ifndef CLEAVE_TARGET_IMAGE_PASSES
#define CLEAVE_TARGET_IMAGE_PASSES

include "mlir/Pass/PassBase.td"

def LowerToExecPass : Pass<"cleave-lower-to-exec", "mlir::ModuleOp"> {
  let summary = "Make the entries of one rank's program lists of commands";
  let description = [{
    Takes a module as the phase `dist` leaves it: a mesh, parameters with their
    sharding, and the functions `count`, `prepare`, `microbatch`, `update` and
    `evaluate` on one rank's blocks. Afterwards it holds the mesh, an `exec.program`
    and the kernels that this launches.

    On the way, calls are inlined, fusion is decided, and every value gets a place.
  }];
  let options = [Option<"profile", "profile", "std::string", "\"avx2\"",
                        "Instruction set of the kernels: avx2, avx512 or avx512-bf16">];
  let dependentDialects = ["mlir::arith::ArithDialect", "mlir::func::FuncDialect",
                           "mlir::linalg::LinalgDialect", "mlir::LLVM::LLVMDialect",
                           "mlir::math::MathDialect", "mlir::scf::SCFDialect",
                           "mlir::tensor::TensorDialect", "mlir::vector::VectorDialect",
                           "cleave::exec::ExecDialect", "cleave::nn::NNDialect"];
}

#endif // CLEAVE_TARGET_IMAGE_PASSES

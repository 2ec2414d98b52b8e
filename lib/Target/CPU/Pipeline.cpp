//===- Pipeline.cpp - the passes from kernels to the LLVM dialect ---------===//

#include "cleave/Target/CPU/KernelCompiler.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace cleave::cpu {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Target/CPU/KernelPasses.h.inc"

void registerKernelDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect,
                  linalg::LinalgDialect, LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect,
                  tensor::TensorDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

void buildKernelPipeline(OpPassManager &pm, const Profile &profile) {
  // Equal reductions must be one op before the plan counts nests.
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addNestedPass<func::FuncOp>(createCSEPass());
  LowerKernelsPassOptions options;
  options.profile = profile.name;
  pm.addPass(createLowerKernelsPass(options));
  ApproximateMathPassOptions math;
  math.keepBF16Casts = profile.roundsToBF16;
  pm.addNestedPass<func::FuncOp>(createApproximateMathPass(math));
  pm.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  pm.addNestedPass<func::FuncOp>(createCSEPass());

  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

LogicalResult lowerKernels(ModuleOp module, const Profile &profile) {
  PassManager pm(module.getContext());
  buildKernelPipeline(pm, profile);
  return pm.run(module);
}

void registerKernelPasses() {
  registerCleaveCPUPasses();
  struct Options : PassPipelineOptions<Options> {
    Option<std::string> profile{*this, "profile", llvm::cl::desc("avx2, avx512 or avx512-bf16"),
                                llvm::cl::init("avx2")};
  };
  PassPipelineRegistration<Options>("cleave-cpu-kernels", "Lower fused kernels to the LLVM dialect",
                                    [](OpPassManager &pm, const Options &options) {
                                      // An unknown name is reported by the pass, which knows the
                                      // module.
                                      Profile profile;
                                      profile.name = options.profile;
                                      if (auto known = Profile::byName(options.profile);
                                          succeeded(known))
                                        profile = *known;
                                      buildKernelPipeline(pm, profile);
                                    });
}

} // namespace cleave::cpu

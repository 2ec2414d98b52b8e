//===- LowerKernels.cpp - fused kernels to loops over vectors -------------===//
//
// Brings a kernel's ops to linalg.generic, plans it and emits its loops.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "cleave/Target/CPU/KernelCompiler.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace cleave::cpu {
#define GEN_PASS_DECL_LOWERKERNELSPASS
#define GEN_PASS_DEF_LOWERKERNELSPASS
#include "lib/Target/CPU/KernelPasses.h.inc"

static LogicalResult lowerKernel(func::FuncOp func, unsigned lanes) {
  auto name = func.getName().str();
  Location loc = func.getLoc();
  auto fail = [&] { return emitError(loc, "kernel '") << name << "' cannot be compiled"; };
  if (failed(normalizeKernel(func)))
    return fail();
  FailureOr<std::unique_ptr<Kernel>> kernel = Kernel::plan(func, {.lanes = lanes});
  if (failed(kernel) || failed(KernelEmitter(**kernel).run()))
    return fail();
  return success();
}

namespace {
struct LowerKernels : impl::LowerKernelsPassBase<LowerKernels> {
  using LowerKernelsPassBase::LowerKernelsPassBase;

  void runOnOperation() override {
    FailureOr<Profile> chosen = Profile::byName(profile);
    if (failed(chosen)) {
      getOperation().emitError("unknown instruction-set profile '") << profile << "'";
      return signalPassFailure();
    }
    SmallVector<func::FuncOp> kernels;
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>())
      if (func->hasAttr(kOutputsAttr) && !func.isDeclaration())
        kernels.push_back(func);
    for (func::FuncOp func : kernels)
      if (failed(lowerKernel(func, chosen->lanes)))
        return signalPassFailure();
  }
};
} // namespace

} // namespace cleave::cpu

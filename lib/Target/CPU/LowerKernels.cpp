//===- LowerKernels.cpp - fused kernels to loops over vectors -------------===//
//
// Brings a kernel's ops to linalg.generic, plans it and emits its loops.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "cleave/Target/CPU/KernelCompiler.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace cleave::cpu {
#define GEN_PASS_DECL_LOWERKERNELSPASS
#define GEN_PASS_DEF_LOWERKERNELSPASS
#include "lib/Target/CPU/KernelPasses.h.inc"

/// Named linalg ops become generic ones (a fill stays: it is a constant), and
/// reshapes move to the edges of the kernel by giving the ops between them more
/// loops, so that indices stay linear.
static LogicalResult normalize(func::FuncOp func) {
  IRRewriter rewriter(func->getContext());
  SmallVector<linalg::LinalgOp> named;
  func.walk([&](linalg::LinalgOp op) {
    if (!isa<linalg::GenericOp, linalg::FillOp>(op))
      named.push_back(op);
  });
  for (linalg::LinalgOp op : named) {
    rewriter.setInsertionPoint(op);
    if (failed(linalg::generalizeNamedOp(rewriter, op)))
      return op->emitError("has no generic form");
  }
  RewritePatternSet patterns(func->getContext());
  linalg::populateFoldReshapeOpsByExpansionPatterns(patterns, [](OpOperand *) { return true; });
  tensor::ExpandShapeOp::getCanonicalizationPatterns(patterns, func->getContext());
  tensor::CollapseShapeOp::getCanonicalizationPatterns(patterns, func->getContext());
  linalg::GenericOp::getCanonicalizationPatterns(patterns, func->getContext());
  return applyPatternsGreedily(func, std::move(patterns));
}

static LogicalResult lowerKernel(func::FuncOp func, unsigned lanes) {
  auto name = func.getName().str();
  Location loc = func.getLoc();
  auto fail = [&] { return emitError(loc, "kernel '") << name << "' cannot be compiled"; };
  if (failed(normalize(func)))
    return fail();
  FailureOr<std::unique_ptr<Kernel>> kernel = Kernel::plan(func, lanes);
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

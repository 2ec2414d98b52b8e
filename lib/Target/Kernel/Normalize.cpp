//===- Normalize.cpp - kernels in the form that plans are made of ---------===//

#include "lib/Target/Kernel/Kernel.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace cleave::target {

LogicalResult normalizeKernel(func::FuncOp func) {
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

} // namespace cleave::target

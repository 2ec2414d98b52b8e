//===- Flatten.cpp - An entry without calls --------------------------------===//

#include "lib/Target/Image/Flatten.h"
#include "cleave/Support/Inline.h"
#include "cleave/Transforms/Fusion/Fusion.h"
#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
namespace cleave::image {

/// Operators of a layer that stands in no repeat. Kernels are of one layer, as in a repeat, so
/// that results are the same to the last bit wherever it stands.
static void nameLayer(ArrayRef<Operation *> ops, Attribute layer) {
  for (Operation *op : ops) {
    op->setAttr(kFusionApartAttr, ArrayAttr::get(op->getContext(), layer));
    if (op->hasAttr("nn.path"))
      op->setAttr(dist::kLayerAttr, layer);
  }
}

LogicalResult flattenCalls(func::FuncOp entry) {
  // A callee may call in turn; layers do not recurse.
  for (int depth = 0; depth < 8; ++depth) {
    SmallVector<func::CallOp> calls;
    entry.walk([&](func::CallOp call) { calls.push_back(call); });
    if (calls.empty())
      return success();
    for (func::CallOp call : calls) {
      Attribute layer = call->getAttr(dist::kLayerAttr);
      auto ops = inlineCall(call);
      if (failed(ops))
        return failure();
      if (layer)
        nameLayer(*ops, layer);
    }
  }
  return entry.emitError("calls functions more than 8 deep");
}

void expandAccumulates(func::FuncOp entry) {
  SmallVector<nn::AccumulateOp> ops;
  entry.walk([&](nn::AccumulateOp op) { ops.push_back(op); });
  for (nn::AccumulateOp op : ops) {
    Value value = op.getValue();
    if (value.hasOneUse() && isa_and_nonnull<ContractionOpInterface>(value.getDefiningOp()))
      continue;
    OpBuilder b(op);
    Location loc = op.getLoc();
    Value old = nn::LoadOp::create(b, loc, value.getType(), op.getParameterAttr(), op.getSlotAttr(),
                                   op.getRowsAttr());
    Value sum = nn::AddOp::create(b, loc, value.getType(), old, value);
    nn::StoreOp::create(b, loc, sum, op.getParameterAttr(), op.getSlotAttr(), op.getRowsAttr());
    op.erase();
  }
}

void roundInProducts(func::FuncOp entry) {
  entry.walk([](nn::CastOp cast) {
    auto made = dyn_cast<OpResult>(cast.getInput());
    auto product =
        made ? dyn_cast<MixedPrecisionOpInterface>(made.getOwner()) : MixedPrecisionOpInterface();
    if (!cast.isNarrowing() || !product || !made.hasOneUse() ||
        product->getBlock() != cast->getBlock() || !product.canRound(made.getResultNumber()) ||
        !llvm::all_of(product.getNarrowOperands(), [&](unsigned i) {
          return getElementTypeOrSelf(product->getOperand(i)).isBF16();
        }))
      return;
    made.setType(cast.getType());
    cast.replaceAllUsesWith(made);
    cast.erase();
  });
}

} // namespace cleave::image

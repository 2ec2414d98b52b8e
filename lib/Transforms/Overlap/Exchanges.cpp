//===- Exchanges.cpp - What may be exchanged beside the computation --------===//

#include "lib/Transforms/Overlap/Exchanges.h"

using namespace mlir;
namespace cleave {

static ArrayAttr axesOf(Operation *exchange) { return exchange->getAttrOfType<ArrayAttr>("axes"); }

bool isBucketable(Operation *op) {
  if (!isa<dist::AllGatherOp, dist::AllReduceOp, dist::ReduceScatterOp>(op))
    return false;
  auto mesh = dist::Mesh::lookup(op, op->getAttrOfType<FlatSymbolRefAttr>("mesh"));
  return mesh && mesh->size(dist::axesOf(axesOf(op))) > 1;
}

bool isStep(Operation *op) {
  return op->getNumOperands() == 1 && op->getNumResults() == 1 && isPure(op) &&
         isa<FusionOpInterface>(op);
}

bool mayMeet(StateOpInterface a, StateOpInterface b) {
  auto isGradient = [](StringRef slot) { return slot == "gradient" || slot == "reduced"; };
  return a.getStateSymbol() == b.getStateSymbol() &&
         (a.getStateSlot() == b.getStateSlot() ||
          (isGradient(a.getStateSlot()) && isGradient(b.getStateSlot())));
}

static int64_t bytesOf(Value v) {
  auto type = cast<RankedTensorType>(v.getType());
  return type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
}

void Buckets::add(Operation *exchange, StringRef direction, Operation *anchor) {
  Builder b(exchange->getContext());
  const int64_t bytes = std::max(bytesOf(exchange->getOperand(0)), bytesOf(exchange->getResult(0)));
  auto [it, isFresh] =
      open.try_emplace({b.getStringAttr(direction + exchange->getName().getStringRef()),
                        axesOf(exchange), exchange->getAttr("kind"), anchor});
  Open &bucket = it->second;
  if (isFresh || bucket.bytes + bytes > most)
    bucket = {next++, 0};
  bucket.bytes += bytes;
  exchange->setAttr(direction, b.getI64IntegerAttr(bucket.number));
}

} // namespace cleave

//===- Buckets.cpp - What runs in the turns of a bucket --------------------===//

#include "lib/Target/Image/Buckets.h"
#include "cleave/Transforms/Fusion/Fusion.h"
#include "dialects/Dist/Dist.h"

using namespace mlir;
namespace cleave::image {
namespace {

/// The companions of one exchange.
class Companions {
public:
  Companions(Operation *exchange, dist::Bucket bucket)
      : exchange(exchange), block(exchange->getBlock()), bucket(bucket) {}

  LogicalResult mark() {
    if (bucket.turn == dist::Bucket::Before)
      return markOperands(exchange);
    for (Operation *user : exchange->getUsers())
      if (failed(markUser(user)))
        return failure();
    return success();
  }

private:
  /// Reads name a place and run nothing; exchanges are in buckets of their own.
  static bool runsNothing(Operation *op) {
    auto state = dyn_cast<StateOpInterface>(op);
    return (state && state.getStateAccess() == StateAccess::Read) ||
           op->hasTrait<OpTrait::ConstantLike>() || dist::bucketOf(op);
  }

  LogicalResult markOperands(Operation *op) {
    for (Value v : op->getOperands()) {
      Operation *maker = v.getDefiningOp();
      if (auto argument = dyn_cast<BlockArgument>(v); argument && argument.getOwner() == block)
        return op->emitOpError("is done ahead of its iteration, but needs what that is given");
      if (!maker || maker->getBlock() != block || runsNothing(maker))
        continue;
      if (failed(markOne(maker)) || failed(markOperands(maker)))
        return failure();
    }
    return success();
  }

  LogicalResult markUser(Operation *user) {
    if (user->getBlock() != block || user == block->getTerminator())
      return exchange->emitOpError("is done behind its iteration, in which its result is needed");
    if (failed(markOne(user)) || failed(markOperands(user)))
      return failure();
    for (Operation *next : user->getUsers())
      if (failed(markUser(next)))
        return failure();
    return success();
  }

  LogicalResult markOne(Operation *op) {
    Attribute number = IntegerAttr::get(IntegerType::get(op->getContext(), 64), bucket.number);
    if (Attribute other = op->getAttr(kFusionApartAttr); other && other != number)
      return op->emitOpError("runs in the turns of two buckets");
    op->setAttr(kFusionApartAttr, number);
    return success();
  }

  Operation *exchange;
  Block *block;
  const dist::Bucket bucket;
};

} // namespace

LogicalResult markCompanions(func::FuncOp entry) {
  WalkResult result = entry.walk([&](Operation *op) {
    auto bucket = dist::bucketOf(op);
    return !bucket || bucket->turn == dist::Bucket::Same ||
                   succeeded(Companions(op, *bucket).mark())
               ? WalkResult::advance()
               : WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

} // namespace cleave::image

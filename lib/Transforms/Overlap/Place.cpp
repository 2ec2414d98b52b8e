//===- Place.cpp - Where exchanges of a block that runs once begin ---------===//
//
// Such a block is a row of stretches: calls of layers, and repeats of them. An exchange that
// needs nothing of the stretch before the one which reads it begins in front of that; a
// result that is only kept is kept behind the stretch that follows.
//
//   call @a                       %g = gather(load w)   {beside}
//   %g = gather(load w)       →   call @a
//   call @b(%g)                   call @b(%g)
//   %s = sum(…)                   %s = sum(…)           {beside}
//   accumulate %s                 call @c
//   call @c                       accumulate %s
//
// Since the place of an exchange, and that of the first use of its result, say all about
// it, operators are moved here, and a target need only begin and wait.
//
//===----------------------------------------------------------------------===//

#include "cleave/Transforms/Overlap/Overlap.h"
#include "lib/Transforms/Overlap/Exchanges.h"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_PLACEEXCHANGESPASS
#include "lib/Transforms/Overlap/Passes.h.inc"

namespace {
class BlockPlacer {
public:
  BlockPlacer(Block &block, Buckets buckets) : block(block), buckets(std::move(buckets)) {}

  OverlapCounts run() {
    OverlapCounts counts;
    SmallVector<Operation *> exchanges;
    for (Operation &op : block)
      if (isBucketable(&op) && !dist::bucketOf(&op))
        exchanges.push_back(&op);
    for (Operation *exchange : exchanges)
      if (beginEarly(exchange))
        ++counts.ahead;
      else if (keepLate(exchange))
        ++counts.behind;
    return counts;
  }

private:
  static bool isStretch(Operation *op) { return isa<CallOpInterface, RepeatOpInterface>(op); }

  /// The first operator of the block that uses `v`, itself or in what it holds.
  Operation *firstUse(Value v) const {
    Operation *first = nullptr;
    for (Operation *user : v.getUsers()) {
      Operation *own = block.findAncestorOpInBlock(*user);
      if (!first || own->isBeforeInBlock(first))
        first = own;
    }
    return first;
  }

  /// Whether nothing from `begin` to before `end` changes what `read` reads.
  static bool isKeptFrom(Operation *begin, Operation *end, StateOpInterface read) {
    for (Operation *op = begin; op != end; op = op->getNextNode())
      if (touches(op, read, /*reads=*/false))
        return false;
    return true;
  }

  /// Whether `op`, or what it holds, changes what `state` means, or if asked reads it.
  static bool touches(Operation *op, StateOpInterface state, bool reads) {
    return op
        ->walk([&](StateOpInterface other) {
          const bool isRead = other.getStateAccess() == StateAccess::Read;
          return other != state && (reads || !isRead) && mayMeet(state, other)
                     ? WalkResult::interrupt()
                     : WalkResult::advance();
        })
        .wasInterrupted();
  }

  /// A kept tensor, perhaps by steps that nobody else needs: begun before the stretch in front
  /// of the first that needs it.
  bool beginEarly(Operation *exchange) {
    SmallVector<Operation *> moved = {exchange};
    StateOpInterface read;
    while (!read) {
      Operation *maker = moved.back()->getOperand(0).getDefiningOp();
      if (!maker || maker->getBlock() != &block)
        return false;
      read = dyn_cast<StateOpInterface>(maker);
      if (read ? read.getStateAccess() != StateAccess::Read : !isStep(maker))
        return false;
      if (!maker->hasOneUse())
        return false;
      moved.push_back(maker);
    }
    Operation *user = firstUse(exchange->getResult(0));
    if (!user || user == block.getTerminator())
      return false;
    Operation *stretch = user->getPrevNode();
    while (stretch && !isStretch(stretch))
      stretch = stretch->getPrevNode();
    if (!stretch)
      return false;
    Operation *load = read;
    if (!isKeptFrom(load->isBeforeInBlock(stretch) ? load : stretch, user, read))
      return false;
    for (Operation *op : llvm::reverse(moved))
      op->moveBefore(stretch);
    buckets.add(exchange, dist::kBesideAttr, stretch);
    return true;
  }

  /// What becomes of the result is kept, and nothing else: behind the stretch that follows.
  bool keepLate(Operation *exchange) {
    Operation *maker = exchange->getOperand(0).getDefiningOp();
    if (!maker || maker->getBlock() != &block)
      return false;
    Operation *stretch = exchange->getNextNode();
    while (stretch && !isStretch(stretch))
      stretch = stretch->getNextNode();
    SmallVector<Operation *> moved;
    if (!stretch || !isOnlyKept(exchange->getResult(0), stretch, moved))
      return false;
    // What is read of a kept tensor is sent from there: nobody may change it meanwhile.
    if (auto read = dyn_cast<StateOpInterface>(maker))
      for (Operation *op = maker; op != stretch->getNextNode(); op = op->getNextNode())
        if (!llvm::is_contained(moved, op) && touches(op, read, /*reads=*/false))
          return false;
    for (Operation *op : llvm::reverse(moved))
      op->moveAfter(stretch);
    buckets.add(exchange, dist::kBesideAttr, stretch);
    return true;
  }

  /// Adds to `moved` all that is made of `v`, which changes kept tensors that nobody touches
  /// until `stretch` has ended.
  bool isOnlyKept(Value v, Operation *stretch, SmallVectorImpl<Operation *> &moved) const {
    return llvm::all_of(v.getUsers(), [&](Operation *user) {
      if (user->getBlock() != &block || !user->isBeforeInBlock(stretch))
        return false;
      moved.push_back(user);
      if (auto state = dyn_cast<StateOpInterface>(user)) {
        for (Operation *op = user->getNextNode(); op != stretch->getNextNode();
             op = op->getNextNode())
          if (touches(op, state, /*reads=*/true))
            return false;
        return true;
      }
      return isStep(user) && isOnlyKept(user->getResult(0), stretch, moved);
    });
  }

  Block &block;
  Buckets buckets;
};

struct PlaceExchangesPass : impl::PlaceExchangesPassBase<PlaceExchangesPass> {
  void runOnOperation() override {
    OverlapCounts counts = placeExchanges(getOperation());
    numEarly += counts.ahead;
    numLate += counts.behind;
  }
};
} // namespace

OverlapCounts placeExchanges(ModuleOp module) {
  OverlapCounts all;
  if (!module->hasAttr(dist::kOverlapAttr))
    return all;
  int64_t nextBucket = 0;
  module.walk([&](Operation *op) {
    if (auto bucket = dist::bucketOf(op))
      nextBucket = std::max(nextBucket, bucket->number + 1);
  });
  for (auto function : module.getOps<FunctionOpInterface>()) {
    // What is called is part of a stretch.
    if (function.isExternal() || function.isPrivate())
      continue;
    OverlapCounts counts =
        BlockPlacer(function.getFunctionBody().front(), Buckets(nextBucket, bucketBytes(module)))
            .run();
    all.ahead += counts.ahead;
    all.behind += counts.behind;
  }
  return all;
}

} // namespace cleave

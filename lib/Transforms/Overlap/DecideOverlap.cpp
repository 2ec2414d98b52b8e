//===- DecideOverlap.cpp - Which exchanges run beside the computation ------===//
//
// A block that repeats runs in turns. An exchange that needs nothing of this turn can be
// done a turn early, one whose result nobody in this turn needs can be done a turn late.
// That an iteration does something early must not change what it reads: what is written
// to a kept tensor by another iteration is asked by the names of tensors.
//
//===----------------------------------------------------------------------===//

#include "cleave/Transforms/Overlap/Overlap.h"
#include "lib/Transforms/Overlap/Exchanges.h"

#define DEBUG_TYPE "cleave-overlap-decide"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_DECIDEOVERLAPPASS
#include "lib/Transforms/Overlap/Passes.h.inc"

namespace {

/// The block of a repeat.
class BlockDecider {
public:
  BlockDecider(RepeatOpInterface repeat, Buckets buckets)
      : block(repeat.getRepeatedBlock()), buckets(std::move(buckets)) {
    for (Operation &op : block)
      if (auto state = dyn_cast<StateOpInterface>(op))
        states.push_back(state);
  }

  OverlapCounts run() {
    OverlapCounts counts;
    for (Operation &op : block) {
      if (!isBucketable(&op))
        continue;
      if (comesAhead(&op)) {
        buckets.add(&op, dist::kAheadAttr);
        ++counts.ahead;
      } else if (staysBehind(&op)) {
        buckets.add(&op, dist::kBehindAttr);
        ++counts.behind;
      }
    }
    return counts;
  }

private:
  /// Whether the tensor is another one in each iteration.
  static bool changesWithIteration(StateOpInterface state) {
    return state.getStateName(0) != state.getStateName(1);
  }

  /// Whether a read may be done before all that the turn before does.
  bool mayReadEarly(StateOpInterface read) const {
    return llvm::all_of(states, [&](StateOpInterface other) {
      return other.getStateAccess() == StateAccess::Read || !mayMeet(read, other) ||
             (changesWithIteration(read) && read->isBeforeInBlock(other));
    });
  }

  /// Whether a change may be done behind all that the next turn does before it.
  bool mayChangeLate(StateOpInterface change) const {
    return llvm::all_of(states, [&](StateOpInterface other) {
      return other == change || !mayMeet(change, other) ||
             (changesWithIteration(change) && other->isBeforeInBlock(change));
    });
  }

  /// Its operand is read from a kept tensor, perhaps by steps that nobody else needs, or
  /// comes from an exchange that comes ahead.
  bool comesAhead(Operation *exchange) const {
    Operation *maker = exchange->getOperand(0).getDefiningOp();
    while (maker && maker->getBlock() == &block) {
      if (auto state = dyn_cast<StateOpInterface>(maker))
        return state.getStateAccess() == StateAccess::Read && mayReadEarly(state);
      if (maker->hasAttr(dist::kAheadAttr))
        return true;
      if (!isStep(maker) || !maker->hasOneUse())
        return false;
      maker = maker->getOperand(0).getDefiningOp();
    }
    return false;
  }

  /// All that is done with its result is to change kept tensors; its operand is made in
  /// this turn, or read of what this turn has added up, and not handed on to the next.
  bool staysBehind(Operation *exchange) const {
    Operation *maker = exchange->getOperand(0).getDefiningOp();
    auto read = dyn_cast_or_null<StateOpInterface>(maker);
    if (!maker || maker->getBlock() != &block || (read && !isLeftAlone(read, exchange)) ||
        llvm::is_contained(exchange->getOperand(0).getUsers(), block.getTerminator()))
      return false;
    return isOnlyKept(exchange->getResult(0));
  }

  /// Whether only what becomes of `exchange` changes what `read` reads, once it is read.
  bool isLeftAlone(StateOpInterface read, Operation *exchange) const {
    return changesWithIteration(read) && llvm::all_of(states, [&](StateOpInterface other) {
             return other == read || !mayMeet(read, other) || other->isBeforeInBlock(read) ||
                    (other->getNumOperands() == 1 && isMadeOf(other->getOperand(0), exchange));
           });
  }

  static bool isMadeOf(Value v, Operation *exchange) {
    Operation *maker = v.getDefiningOp();
    return maker == exchange ||
           (maker && isStep(maker) && isMadeOf(maker->getOperand(0), exchange));
  }

  bool isOnlyKept(Value v) const {
    return llvm::all_of(v.getUsers(), [&](Operation *user) {
      if (user->getBlock() != &block)
        return false;
      if (auto state = dyn_cast<StateOpInterface>(user))
        return mayChangeLate(state);
      return isStep(user) && isOnlyKept(user->getResult(0));
    });
  }

  Block &block;
  Buckets buckets;
  SmallVector<StateOpInterface> states;
};

struct DecideOverlapPass : impl::DecideOverlapPassBase<DecideOverlapPass> {
  void runOnOperation() override {
    OverlapCounts counts = decideOverlap(getOperation());
    numAhead += counts.ahead;
    numBehind += counts.behind;
  }
};

} // namespace

int64_t bucketBytes(ModuleOp module) {
  auto given = module->getAttrOfType<IntegerAttr>(dist::kOverlapAttr);
  return given ? given.getInt() : dist::kBucketBytes;
}

OverlapCounts decideOverlap(ModuleOp module) {
  OverlapCounts all;
  if (!module->hasAttr(dist::kOverlapAttr))
    return all;
  int64_t nextBucket = 0;
  module.walk([&](RepeatOpInterface repeat) {
    // A single turn has no other to run beside.
    if (repeat.getIterations() < 2)
      return;
    OverlapCounts counts = BlockDecider(repeat, Buckets(nextBucket, bucketBytes(module))).run();
    all.ahead += counts.ahead;
    all.behind += counts.behind;
  });
  return all;
}

} // namespace cleave

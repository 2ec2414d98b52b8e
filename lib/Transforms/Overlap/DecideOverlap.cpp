//===- DecideOverlap.cpp - Which exchanges run beside the computation ------===//
//
// A block that repeats runs in turns. An exchange that needs nothing of this turn can be
// done a turn early, one whose result nobody in this turn needs can be done a turn late.
// That an iteration does something early must not change what it reads: what is written
// to a kept tensor by another iteration is asked by the names of tensors.
//
//===----------------------------------------------------------------------===//

#include "cleave/Transforms/Overlap/Overlap.h"
#include "llvm/ADT/MapVector.h"

#define DEBUG_TYPE "cleave-overlap-decide"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_DECIDEOVERLAPPASS
#include "lib/Transforms/Overlap/Passes.h.inc"

namespace {

/// An operator that makes one value of one other in a kernel.
bool isStep(Operation *op) {
  return op->getNumOperands() == 1 && op->getNumResults() == 1 && isPure(op) &&
         isa<FusionOpInterface>(op);
}

/// The block of a repeat.
class BlockDecider {
public:
  /// Buckets get numbers from `nextBucket` on.
  BlockDecider(RepeatOpInterface repeat, int64_t &nextBucket)
      : block(repeat.getRepeatedBlock()), nextBucket(nextBucket) {
    for (Operation &op : block)
      if (auto state = dyn_cast<StateOpInterface>(op))
        states.push_back(state);
  }

  OverlapCounts run() {
    OverlapCounts counts;
    for (Operation &op : block) {
      if (!isa<dist::AllGatherOp, dist::AllReduceOp, dist::ReduceScatterOp>(op) || !isShared(&op))
        continue;
      if (comesAhead(&op)) {
        mark(&op, dist::kAheadAttr);
        ++counts.ahead;
      } else if (staysBehind(&op)) {
        mark(&op, dist::kBehindAttr);
        ++counts.behind;
      }
    }
    return counts;
  }

private:
  static ArrayAttr axesOf(Operation *exchange) {
    return exchange->getAttrOfType<ArrayAttr>("axes");
  }

  /// Whether there are ranks to exchange with.
  static bool isShared(Operation *exchange) {
    auto mesh = dist::Mesh::lookup(exchange, exchange->getAttrOfType<FlatSymbolRefAttr>("mesh"));
    return mesh && mesh->size(dist::axesOf(axesOf(exchange))) > 1;
  }

  /// One bucket for each direction, kind, reduction and list of axes.
  void mark(Operation *exchange, StringRef direction) {
    Builder b(exchange->getContext());
    auto [it, fresh] =
        buckets.try_emplace({b.getStringAttr(direction + exchange->getName().getStringRef()),
                             axesOf(exchange), exchange->getAttr("kind")},
                            nextBucket);
    if (fresh)
      ++nextBucket;
    exchange->setAttr(direction, b.getI64IntegerAttr(it->second));
  }

  /// Whether the tensor is another one in each iteration.
  static bool changesWithIteration(StateOpInterface state) {
    return state.getStateName(0) != state.getStateName(1);
  }

  /// Whether both may mean one tensor, or memory that its slots share.
  static bool mayMeet(StateOpInterface a, StateOpInterface b) {
    auto isGradient = [](StringRef slot) { return slot == "gradient" || slot == "reduced"; };
    return a.getStateSymbol() == b.getStateSymbol() &&
           (a.getStateSlot() == b.getStateSlot() ||
            (isGradient(a.getStateSlot()) && isGradient(b.getStateSlot())));
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
  /// this turn and not handed on to the next.
  bool staysBehind(Operation *exchange) const {
    Operation *maker = exchange->getOperand(0).getDefiningOp();
    if (!maker || maker->getBlock() != &block || isa<StateOpInterface>(maker) ||
        llvm::is_contained(exchange->getOperand(0).getUsers(), block.getTerminator()))
      return false;
    return isOnlyKept(exchange->getResult(0));
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
  int64_t &nextBucket;
  SmallVector<StateOpInterface> states;
  llvm::MapVector<std::tuple<Attribute, Attribute, Attribute>, int64_t> buckets;
};

struct DecideOverlapPass : impl::DecideOverlapPassBase<DecideOverlapPass> {
  void runOnOperation() override {
    OverlapCounts counts = decideOverlap(getOperation());
    numAhead += counts.ahead;
    numBehind += counts.behind;
  }
};

} // namespace

OverlapCounts decideOverlap(ModuleOp module) {
  OverlapCounts all;
  if (!module->hasAttr(dist::kOverlapAttr))
    return all;
  int64_t nextBucket = 0;
  module.walk([&](RepeatOpInterface repeat) {
    // A single turn has no other to run beside.
    if (repeat.getIterations() < 2)
      return;
    OverlapCounts counts = BlockDecider(repeat, nextBucket).run();
    all.ahead += counts.ahead;
    all.behind += counts.behind;
  });
  return all;
}

} // namespace cleave

//===- Decide.cpp - Which operators become one kernel ----------------------===//

#include "Prepare.h"
#include "Rows.h"
#include "Units.h"
#include "cleave/Transforms/Fusion/Fusion.h"

using namespace mlir;

namespace cleave {
#define GEN_PASS_DEF_FUSIONDECIDEPASS
#include "lib/Transforms/Fusion/Passes.h.inc"
} // namespace cleave

using namespace cleave;
using namespace cleave::fusion;

namespace {

/// Operands of one kernel: more make it slow to compile and to start.
constexpr size_t kMostOperands = 64, kMostScalarOperands = 512;

class Decider {
public:
  /// Groups that are made here get numbers from `nextGroup` on.
  Decider(Block &block, int64_t nextGroup) : units(block), nextGroup(nextGroup) {}

  /// Returns the first number that is free behind.
  int64_t run() {
    keepDecided();
    for (unsigned i = 0; i < units.size(); ++i)
      if (!decided(i) && isa<FusionOpInterface>(units.op(i)))
        place(i);
    number();
    units.reorder();
    return nextGroup;
  }

private:
  bool decided(unsigned op) const { return units.op(op)->hasAttr(kFusionGroupAttr); }

  /// Groups that are written already are units from the start.
  void keepDecided() {
    llvm::DenseMap<int64_t, unsigned> first;
    for (unsigned i = 0; i < units.size(); ++i)
      if (auto group = units.op(i)->getAttrOfType<IntegerAttr>(kFusionGroupAttr)) {
        units.merge(units.unitOf(i),
                    first.try_emplace(group.getInt(), units.unitOf(i)).first->second);
        nextGroup = std::max(nextGroup, group.getInt() + 1);
      }
  }

  /// Groups that `op` may want to join: its producers', the latest first, then
  /// those that read a large operand of it too.
  SmallVector<unsigned> candidates(unsigned op) const {
    SmallVector<unsigned> found;
    auto add = [&](Operation *other) {
      int i = other ? units.find(other) : -1;
      if (i < 0 || !rows.count(units.unitOf(i)) || static_cast<unsigned>(i) >= op)
        return;
      if (!llvm::is_contained(found, units.unitOf(i)))
        found.push_back(units.unitOf(i));
    };
    for (Value v : llvm::reverse(units.op(op)->getOperands()))
      add(v.getDefiningOp());
    int64_t extent = Rows::plan(units.op(op))->extent();
    for (Value v : units.op(op)->getOperands()) {
      auto type = dyn_cast<RankedTensorType>(v.getType());
      if (type && type.getRank() > 0 && type.getNumElements() >= extent)
        for (Operation *reader : v.getUsers())
          add(reader);
    }
    return found;
  }

  bool fits(ArrayRef<Operation *> ops, const Rows &joint) const {
    llvm::SmallDenseSet<Value> operands;
    for (Operation *op : ops)
      for (Value v : op->getOperands())
        if (!llvm::is_contained(ops, v.getDefiningOp()))
          operands.insert(v);
    return operands.size() <= (joint.none() ? kMostScalarOperands : kMostOperands);
  }

  SmallVector<Operation *> opsOf(unsigned unit) const {
    return llvm::map_to_vector(units.members(unit), [&](unsigned i) { return units.op(i); });
  }

  Attribute apart(unsigned unit) const {
    return units.op(units.members(unit).front())->getAttr(kFusionApartAttr);
  }

  /// Makes one group of `unit` and `target` if they can be one kernel.
  bool tryMerge(unsigned unit, unsigned target) {
    const Rows &own = rows.find(unit)->second, &there = rows.find(target)->second;
    if (own.alone() || there.alone() || there.none() != own.none() || apart(unit) != apart(target))
      return false;
    SmallVector<Operation *> all = opsOf(target);
    llvm::append_range(all, opsOf(unit));
    std::optional<Rows> joint = Rows::plan(all);
    // A kernel with fewer rows than either has less to do in parallel.
    if (!joint || joint->extent() < std::min(there.extent(), own.extent()) || !fits(all, *joint) ||
        !units.mayMerge(unit, target))
      return false;
    units.merge(unit, target);
    rows.erase(unit);
    rows.find(target)->second = *joint;
    return true;
  }

  /// Puts `op` into the first group that takes it, or into a new one; then other
  /// groups that it reads from come to it too.
  void place(unsigned op) {
    std::optional<Rows> own = Rows::plan(units.op(op));
    if (!own)
      return;
    SmallVector<unsigned> found = candidates(op);
    rows.try_emplace(units.unitOf(op), *own);
    for (unsigned unit : found)
      if (tryMerge(units.unitOf(op), unit))
        break;
    for (Value v : units.op(op)->getOperands()) {
      int producer = v.getDefiningOp() ? units.find(v.getDefiningOp()) : -1;
      if (producer < 0)
        continue;
      unsigned unit = units.unitOf(producer);
      if (unit != units.unitOf(op) && rows.count(unit))
        tryMerge(unit, units.unitOf(op));
    }
  }

  void number() {
    Builder b(units.op(0)->getContext());
    for (unsigned u = 0; u < units.size(); ++u) {
      if (!rows.count(u))
        continue;
      for (unsigned member : units.members(u))
        units.op(member)->setAttr(kFusionGroupAttr, b.getI64IntegerAttr(nextGroup));
      ++nextGroup;
    }
  }

  Units units;
  llvm::DenseMap<unsigned, Rows> rows; ///< of the groups made here
  int64_t nextGroup;
};

struct FusionDecidePass : cleave::impl::FusionDecidePassBase<FusionDecidePass> {
  using FusionDecidePassBase::FusionDecidePassBase;
  void runOnOperation() override {
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration() && function.getBody().hasOneBlock())
        decideFusion(function.front());
  }
};

/// Decides `block` and what repeats in it; groups have numbers from `nextGroup` on.
int64_t decide(Block &block, int64_t nextGroup) {
  prepare(block);
  if (!block.without_terminator().empty())
    nextGroup = Decider(block, nextGroup).run();
  for (auto repeat : block.getOps<RepeatOpInterface>())
    nextGroup = decide(repeat.getRepeatedBlock(), nextGroup);
  return nextGroup;
}

} // namespace

void cleave::decideFusion(Block &flat) { decide(flat, 0); }

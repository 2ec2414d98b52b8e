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
  explicit Decider(func::FuncOp function) : units(function.front()) {}

  void run() {
    keepDecided();
    for (unsigned i = 0; i < units.size(); ++i)
      if (!decided(i) && isa<FusionOpInterface>(units.op(i)))
        place(i);
    number();
    units.reorder();
  }

private:
  bool decided(unsigned op) const { return units.op(op)->hasAttr(kFusionGroupAttr); }

  /// Groups that are written already are units from the start.
  void keepDecided() {
    llvm::DenseMap<int64_t, unsigned> first;
    for (unsigned i = 0; i < units.size(); ++i)
      if (auto group = units.op(i)->getAttrOfType<IntegerAttr>(kFusionGroupAttr)) {
        units.join(i, first.try_emplace(group.getInt(), units.unitOf(i)).first->second);
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

  /// Puts `op` into the first group that takes it, or into a new one.
  void place(unsigned op) {
    std::optional<Rows> own = Rows::plan(units.op(op));
    if (!own)
      return;
    if (!own->alone())
      for (unsigned unit : candidates(op)) {
        const Rows &there = rows.find(unit)->second;
        if (there.alone() || there.none() != own->none())
          continue;
        SmallVector<Operation *> all;
        for (unsigned member : units.members(unit))
          all.push_back(units.op(member));
        all.push_back(units.op(op));
        std::optional<Rows> joint = Rows::plan(all);
        // A kernel with fewer rows than either has less to do in parallel.
        if (!joint || joint->extent() < std::min(there.extent(), own->extent()) ||
            !fits(all, *joint) || !units.mayJoin(op, unit))
          continue;
        units.join(op, unit);
        rows.find(unit)->second = *joint;
        return;
      }
    rows.try_emplace(units.unitOf(op), *own);
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
  int64_t nextGroup = 0;
};

struct FusionDecidePass : cleave::impl::FusionDecidePassBase<FusionDecidePass> {
  using FusionDecidePassBase::FusionDecidePassBase;
  void runOnOperation() override {
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration() && function.getBody().hasOneBlock())
        decideFusion(function);
  }
};

} // namespace

void cleave::decideFusion(func::FuncOp function) {
  prepare(function);
  if (!function.front().without_terminator().empty())
    Decider(function).run();
}

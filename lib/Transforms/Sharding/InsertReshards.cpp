//===- InsertReshards.cpp - Changes of placement, made explicit ------------===//

#include "cleave/Transforms/Sharding/Sharding.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_INSERTRESHARDSPASS
#include "lib/Transforms/Sharding/Passes.h.inc"

using dist::ShardingAttr;

/// Where a value lies, by what its definition wrote down.
static ShardingAttr placement(Value v) {
  if (auto reshard = v.getDefiningOp<dist::ReshardOp>())
    return reshard.getTarget();
  if (Operation *op = v.getDefiningOp())
    return cast<ShardingAttr>(
        op->getAttrOfType<ArrayAttr>("dist.out")[cast<OpResult>(v).getResultNumber()]);
  auto argument = cast<BlockArgument>(v);
  auto function = cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return function.getArgAttrOfType<ShardingAttr>(argument.getArgNumber(), "dist.sharding");
}

static unsigned insertIn(FunctionOpInterface function) {
  llvm::DenseMap<std::pair<Value, Attribute>, Value> made;
  unsigned count = 0;
  for (Operation &op : llvm::make_early_inc_range(function.getFunctionBody().front())) {
    auto needs = op.getAttrOfType<ArrayAttr>("dist.in");
    if (!needs)
      continue;
    for (auto [i, need] : llvm::enumerate(needs)) {
      Value v = op.getOperand(i);
      ShardingAttr has = placement(v), wants = cast<ShardingAttr>(need);
      if (has == wants)
        continue;
      Value &reshard = made[{v, wants}];
      if (!reshard) {
        OpBuilder b(&op);
        reshard = dist::ReshardOp::create(b, op.getLoc(), v.getType(), v, has, wants);
        ++count;
      }
      op.setOperand(i, reshard);
    }
  }
  return count;
}

unsigned insertReshards(ModuleOp module) {
  unsigned count = 0;
  for (auto function : module.getOps<FunctionOpInterface>())
    count += insertIn(function);
  return count;
}

namespace {
struct InsertReshardsPass : impl::InsertReshardsPassBase<InsertReshardsPass> {
  void runOnOperation() override { numReshards += insertReshards(getOperation()); }
};
} // namespace

} // namespace cleave

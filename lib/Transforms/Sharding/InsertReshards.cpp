//===- InsertReshards.cpp - Changes of placement, made explicit ------------===//

#include "cleave/Transforms/Sharding/Sharding.h"
#include "lib/Transforms/Sharding/Notes.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_INSERTRESHARDSPASS
#include "lib/Transforms/Sharding/Passes.h.inc"

using dist::ShardingAttr;

/// What is made in a block is not seen outside of it, so each has its own.
static unsigned insertIn(Block &block) {
  llvm::DenseMap<std::pair<Value, Attribute>, Value> made;
  unsigned count = 0;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto repeat = dyn_cast<RepeatOpInterface>(op))
      count += insertIn(repeat.getRepeatedBlock());
    auto needs = op.getAttrOfType<ArrayAttr>("dist.in");
    if (!needs)
      continue;
    for (auto [i, need] : llvm::enumerate(needs)) {
      Value v = op.getOperand(i);
      ShardingAttr has = placementOf(v), wants = cast<ShardingAttr>(need);
      if (has == wants)
        continue;
      Value &reshard = made[{v, wants}];
      if (!reshard) {
        OpBuilder b(&op);
        auto made = dist::ReshardOp::create(b, op.getLoc(), v.getType(), v, has, wants);
        if (StringAttr name = reportedName(v, &op))
          made->setAttr("nn.path", name);
        reshard = made;
        ++count;
      }
      op.setOperand(i, reshard);
    }
  }
  return count;
}

FailureOr<unsigned> insertReshards(ModuleOp module) {
  auto mesh = findMesh(module);
  if (failed(mesh) || failed(checkNotes(module, *mesh)))
    return failure();
  unsigned count = 0;
  for (auto function : module.getOps<FunctionOpInterface>())
    count += insertIn(function.getFunctionBody().front());
  return count;
}

namespace {
struct InsertReshardsPass : impl::InsertReshardsPassBase<InsertReshardsPass> {
  void runOnOperation() override {
    auto inserted = insertReshards(getOperation());
    if (failed(inserted))
      return signalPassFailure();
    numReshards += *inserted;
  }
};
} // namespace

} // namespace cleave

//===- Blocks.cpp - Can operators go through a dimension in blocks? --------===//

#include "cleave/Analysis/Blocks.h"
#include "dialects/Interfaces/Interfaces.h"
#include "dialects/NN/NN.h"

using namespace mlir;
namespace cleave {

static bool has(Value v, StringRef dim) { return nn::findDim(v.getType(), dim) >= 0; }

/// Whether `op` has a way of its own to go through `dim`.
static bool isBlockwise(Operation *op, StringRef dim) {
  auto blockwise = dyn_cast<BlockwiseOpInterface>(op);
  for (auto [i, v] : llvm::enumerate(op->getOperands()))
    if (has(v, dim))
      return blockwise && blockwise.hasBlocks(i, nn::findDim(v.getType(), dim));
  return false;
}

static ChunkObstacle obstacle(Operation *op, const Twine &reason) { return {op, reason.str()}; }

/// What keeps the sharded operator `op` from being done for each block.
static std::optional<ChunkObstacle> findOwnObstacle(Operation *op, StringRef dim) {
  ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  int factor = rule.find(dim);
  if (factor < 0 || !rule.factors[factor].shardable)
    return obstacle(op, "needs all of '" + dim + "' at once");
  for (Value v : op->getResults())
    if (!has(v, dim) && rule.factors[factor].reduction != ReductionKind::Sum)
      return obstacle(op, "reduces '" + dim + "' by something other than a sum");
  return std::nullopt;
}

std::optional<ChunkObstacle> splitForBlocks(ArrayRef<Operation *> ops, StringRef dim,
                                            BlockSplit &split) {
  llvm::DenseMap<Operation *, bool> late; // inside: false, after: true
  for (Operation *op : ops) {
    bool has = llvm::any_of(llvm::concat<const Value>(SmallVector<Value>(op->getOperands()),
                                                      SmallVector<Value>(op->getResults())),
                            [&](Value v) { return cleave::has(v, dim); });
    // Exchanges and accesses take the whole, and so does a call.
    bool blockwise = isBlockwise(op, dim);
    bool inside = has && (blockwise || isa<ShardingRuleOpInterface>(op));
    if (inside && !blockwise)
      if (auto found = findOwnObstacle(op, dim))
        return found;
    for (Value v : op->getOperands()) {
      auto it = late.find(v.getDefiningOp());
      if (it == late.end())
        continue;
      if (inside && (it->second || !cleave::has(v, dim)))
        return obstacle(op, "needs, for each block of '" + dim + "', what all blocks give");
      if (!inside)
        late[op] = true;
    }
    if (inside) {
      late[op] = false;
      split.inside.push_back(op);
    } else if (late.contains(op)) {
      split.after.push_back(op);
    }
  }
  return std::nullopt;
}

llvm::DenseSet<Operation *> dependenciesOf(ValueRange roots) {
  llvm::DenseSet<Operation *> needed;
  SmallVector<Value> work(roots);
  while (!work.empty())
    if (Operation *op = work.pop_back_val().getDefiningOp(); op && needed.insert(op).second)
      llvm::append_range(work, op->getOperands());
  return needed;
}

std::optional<ChunkObstacle> findBlockObstacle(func::FuncOp joint, StringRef dim) {
  Block &body = joint.getBody().front();
  for (Value v : body.getTerminator()->getOperands())
    if (has(v, dim) && nn::findDim(v.getType(), dim) != 0)
      return obstacle(joint, "returns a value whose blocks along '" + dim + "' are not contiguous");
  size_t gradients = joint->getAttrOfType<DenseI64ArrayAttr>("nn.joint.arguments").size();
  auto needed = dependenciesOf(body.getTerminator()->getOperands().drop_back(gradients));
  SmallVector<Operation *> forward, backward;
  for (Operation &op : body.without_terminator()) {
    if (needed.contains(&op))
      forward.push_back(&op);
    if (!needed.contains(&op) ||
        llvm::all_of(op.getResults(), [&](Value v) { return has(v, dim); }))
      backward.push_back(&op);
  }
  BlockSplit split;
  if (auto found = splitForBlocks(forward, dim, split))
    return found;
  if (split.inside.empty())
    return obstacle(joint, "has no value along '" + dim + "'");
  return splitForBlocks(backward, dim, split);
}

} // namespace cleave

//===- Dear.cpp - What is kept rather than computed again ----------------------===//

#include "cleave/Analysis/Dear.h"
#include "dialects/Interfaces/Interfaces.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
namespace cleave {

static bool isOfFloats(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

SmallVector<Value> comparedRows(Operation *op) {
  SmallVector<Value> rows;
  auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
  if (!sharded || !isa<TokenOrderOpInterface>(op))
    return rows;
  const ShardingRule rule = sharded.getShardingRule();
  for (auto [factors, value] : llvm::zip(rule.operands, op->getOperands()))
    if (isOfFloats(value) && llvm::any_of(factors, [&](int f) {
          return ShapedType::isDynamic(rule.factors[f].size) &&
                 !llvm::is_contained(rule.results[0], f);
        }))
      rows.push_back(value);
  if (rows.size() < 2)
    rows.clear();
  return rows;
}

/// Whether `op` is linear in all its operands together: it adds them up, takes one apart, or the
/// like.
static bool isLinear(Operation *op) {
  auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
  return sharded && op->getNumOperands() > 0 &&
         llvm::any_of(sharded.getShardingRule().linear,
                      [&](const auto &group) { return group.size() == op->getNumOperands(); });
}

bool isDear(Operation *op) {
  if (isa<ContractionOpInterface, PickedContractionOpInterface>(op) || !comparedRows(op).empty())
    return true;
  return isLinear(op) && llvm::all_of(op->getOperands(), [](Value value) {
           Operation *maker = value.getDefiningOp();
           return value.hasOneUse() && (!maker || isDear(maker));
         });
}

SmallVector<StringRef> dearPaths(func::FuncOp kind) {
  SmallVector<StringRef> paths;
  for (Operation &op : kind.getBody().getOps())
    if (auto path = op.getAttrOfType<StringAttr>("nn.path"); path && isDear(&op))
      if (!llvm::is_contained(paths, path.getValue()))
        paths.push_back(path.getValue());
  return paths;
}

} // namespace cleave

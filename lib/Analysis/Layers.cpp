//===- Layers.cpp - The layers of a model, one by one ----------------------===//

#include "cleave/Analysis/Layers.h"
#include "dialects/Interfaces/Interfaces.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
namespace cleave {

static Layer layerOf(func::CallOp call, int64_t iteration) {
  Layer layer{call.getCallee(), {}};
  for (Value operand : call.getOperands()) {
    auto state = operand.getDefiningOp<StateOpInterface>();
    if (state && state.getStateAccess() == StateAccess::Read)
      layer.tensors.push_back({state.getStateSymbol(), state.getStateName(iteration)});
  }
  return layer;
}

/// Adds the layers of `block`, in an iteration of the repeat around it.
static LogicalResult addLayers(Block &block, int64_t iteration, std::vector<Layer> &layers) {
  for (Operation &op : block) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      if (static_cast<int64_t>(layers.size()) == kMostLayers)
        return failure();
      layers.push_back(layerOf(call, iteration));
    }
    if (auto repeat = dyn_cast<RepeatOpInterface>(op)) {
      if (repeat.getIterations() > kMostLayers)
        return failure();
      for (int64_t i = 0; i < repeat.getIterations(); ++i)
        if (failed(addLayers(repeat.getRepeatedBlock(), i, layers)))
          return failure();
    }
  }
  return success();
}

std::optional<std::vector<Layer>> layersOf(ModuleOp model) {
  auto forward = model.lookupSymbol<func::FuncOp>("forward");
  std::vector<Layer> layers;
  if (!forward || forward.isExternal() || failed(addLayers(forward.getBody().front(), 0, layers)))
    return std::nullopt;
  return layers;
}

double productsPerToken(func::FuncOp kind) {
  double sum = 0;
  for (Operation &op : kind.getBody().getOps()) {
    auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
    if (!sharded || !isa<ContractionOpInterface>(op))
      continue;
    const ShardingRule rule = sharded.getShardingRule();
    llvm::SmallVector<int64_t> sizes(rule.factors.size(), 1);
    for (auto [factors, value] : llvm::zip(rule.operands, op.getOperands()))
      for (auto [factor, size] : llvm::zip(factors, cast<ShapedType>(value.getType()).getShape()))
        sizes[factor] = ShapedType::isDynamic(size) ? 1 : size;
    double product = 1;
    for (int64_t size : sizes)
      product *= static_cast<double>(size);
    sum += product;
  }
  return sum;
}

} // namespace cleave

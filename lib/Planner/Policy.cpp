//===- Policy.cpp - Which dimension takes which axis -----------------------===//

#include "lib/Planner/Policy.h"
#include "dialects/NN/NN.h"
#include <numeric>

using namespace mlir;
namespace cleave {

HeadSizes headSizes(ModuleOp model) {
  HeadSizes sizes;
  for (auto parameter : model.getOps<nn::ParameterOp>()) {
    auto type = parameter.getTensorType();
    if (int d = nn::findDim(type, "kv_head"); d >= 0)
      sizes.keyHeads = type.getDimSize(d);
    if (int d = nn::findDim(type, "group"); d >= 0)
      sizes.groups = type.getDimSize(d);
  }
  if (sizes.groups > 1 && sizes.keyHeads == 0)
    sizes.keyHeads = 1;
  return sizes;
}

bool headsDivide(HeadSizes sizes, int64_t tp) {
  return sizes.groups % (tp / std::gcd(tp, sizes.keyHeads)) == 0;
}

Policy makePolicy(HeadSizes sizes, const Degrees &degrees, const Pins &pins) {
  Policy policy;
  const int64_t tp = degrees.tp;
  policy.data = degrees.dp > 1;
  policy.context = degrees.cp > 1;
  policy.tensor = tp > 1;
  policy.tokenRanks = degrees.dp * degrees.cp;
  policy.zero = policy.tokenRanks > 1 ? pins.zero.value_or(0) : 0;
  policy.sequence = pins.sequence.value_or(false);
  policy.vocabulary = pins.vocabulary.value_or(true);
  // Key heads take the part of the axis that divides them, query groups the rest.
  int64_t keys = std::gcd(tp, sizes.keyHeads), groups = tp / keys;
  if (keys > 1 && groups > 1) {
    policy.tensorParts = {keys, groups};
    policy.heads["kv_head"] = {"tensor.0"};
    policy.heads["group"] = {"tensor.1"};
  } else {
    policy.tensorParts = {tp};
    policy.heads[keys > 1 ? "kv_head" : "group"] = {"tensor"};
  }
  return policy;
}

Assignment Policy::assign(const ShardingRule &rule) const {
  Assignment out;
  auto canCut = [&](StringRef name) {
    int f = rule.find(name);
    return f >= 0 && rule.factors[f].shardable;
  };
  if (data && canCut("batch"))
    out["batch"] = {"data"};
  if (context && canCut("sequence"))
    out["sequence"] = {"context"};
  if (!tensor)
    return out;
  for (const auto &[name, axes] : heads)
    if (canCut(name))
      out[name] = axes;
  // An operator on heads keeps to the heads, even where it repeats key heads.
  if (rule.find("kv_head") >= 0)
    return out;
  if (canCut("ffn"))
    out["ffn"] = {"tensor"};
  else if (vocabulary && canCut("vocab"))
    out["vocab"] = {"tensor"};
  else if (sequence && canCut("sequence"))
    out["sequence"].push_back("tensor");
  return out;
}

Assignment Policy::overTokens(Assignment placement, RankedTensorType type) const {
  auto blockOf = [&](StringRef name, int64_t size) {
    int64_t ways = 1;
    if (auto it = placement.find(name); it != placement.end())
      for (const std::string &axis : it->second)
        for (auto [i, part] : llvm::enumerate(tensorParts))
          if (axis == "tensor" || axis == "tensor." + std::to_string(i))
            ways *= part;
    return size % ways == 0 ? size / ways : 0;
  };
  StringRef chosen;
  int64_t longest = -1;
  for (auto [name, size] : llvm::zip(nn::dimNames(type), type.getShape())) {
    int64_t block = blockOf(name.getValue(), size);
    if (block > 0 && block % tokenRanks == 0) {
      chosen = name.getValue();
      break;
    }
    if (size > longest) {
      longest = size;
      chosen = name.getValue();
    }
  }
  if (!chosen.empty() && data)
    placement[chosen].push_back("data");
  if (!chosen.empty() && context)
    placement[chosen].push_back("context");
  return placement;
}

} // namespace cleave

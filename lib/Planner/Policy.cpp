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

int64_t countExperts(ModuleOp model) {
  int64_t most = 0;
  for (auto parameter : model.getOps<nn::ParameterOp>())
    if (int d = nn::findDim(parameter.getTensorType(), "expert"); d >= 0)
      most = std::max(most, parameter.getTensorType().getDimSize(d));
  return most;
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
  policy.zeroRanks = pins.zeroGroup.value_or(degrees.dp * degrees.cp);
  policy.zero = policy.zeroRanks > 1 ? pins.zero.value_or(0) : 0;
  const int64_t ep = pins.experts.value_or(1), dp = degrees.dp;
  policy.dataParts = {dp};
  if (ep > 1 && dp % ep == 0 && dp > ep) {
    policy.dataParts = {dp / ep, ep};
    policy.experts = {"data.1"};
  } else if (ep > 1) {
    if (dp > 1 && ep % dp == 0)
      policy.experts.push_back("data");
    policy.expertsOverTensor = ep != dp;
    if (policy.expertsOverTensor)
      policy.experts.push_back("tensor");
  }
  if (const int64_t group = policy.zeroRanks / degrees.cp; policy.zero && group < dp) {
    policy.zeroData = group > 1 ? "data.1" : "";
    if (group > 1)
      policy.dataParts = {dp / group, group};
  }
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

static bool canCut(const ShardingRule &rule, StringRef name) {
  int f = rule.find(name);
  return f >= 0 && rule.factors[f].shardable;
}

rt::Status checkStatePins(const Degrees &degrees, const Pins &pins) {
  if (!pins.zeroGroup)
    return rt::Status::success();
  const int64_t group = *pins.zeroGroup, ranks = degrees.dp * degrees.cp;
  auto refuse = [&](const std::string &message, const std::string &rule) {
    return rt::userError("plan.bad_pin", message)
        .withGiven("zero_group=" + std::to_string(group) + ", dp=" + std::to_string(degrees.dp) +
                   ", cp=" + std::to_string(degrees.cp))
        .withRule(rule);
  };
  if (pins.zero.value_or(0) == 0)
    return refuse("a group of ranks that share state is given, and nothing is shared",
                  "zero_group goes with zero of 1 to 3")
        .suggest("zero=1");
  if (pins.experts.value_or(1) > 1)
    return refuse("groups of ranks share state beside experts that are dealt out",
                  "zero_group and ep are not pinned together")
        .suggest("zero_group left out");
  if (ranks % group != 0 || group % degrees.cp != 0)
    return refuse("the ranks of data and context cannot be put in such groups",
                  "zero_group is a multiple of cp that divides dp × cp")
        .suggest("zero_group=" + std::to_string(ranks));
  return rt::Status::success();
}

SmallVector<std::string> Policy::dataLeft() const {
  if (llvm::is_contained(experts, "data.1"))
    return {"data.0"};
  if (!data || llvm::is_contained(experts, "data"))
    return {};
  return {"data"};
}

/// Experts see the tokens of all ranks along their axes.
Assignment Policy::assignRouted(const ShardingRule &rule) const {
  Assignment out;
  if (SmallVector<std::string> left = dataLeft(); !left.empty() && canCut(rule, "batch"))
    out["batch"] = left;
  if (context && cleave::canCut(rule, "sequence"))
    out["sequence"] = {"context"};
  if (!experts.empty() && canCut(rule, "expert"))
    out["expert"] = experts;
  if (tensor && !expertsOverTensor && canCut(rule, "ffn"))
    out["ffn"] = {"tensor"};
  return out;
}

Assignment Policy::assign(const ShardingRule &rule) const {
  // A router's own operators need all choices of a token, or all experts.
  if (canCut(rule, "choice") && (rule.find("expert") < 0 || canCut(rule, "expert")))
    return assignRouted(rule);
  Assignment out;
  auto canCut = [&](StringRef name) { return cleave::canCut(rule, name); };
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
    auto count = [&](StringRef whole, StringRef axis, ArrayRef<int64_t> parts) {
      for (auto [i, part] : llvm::enumerate(parts))
        if (axis == whole || axis == (whole + "." + Twine(i)).str())
          ways *= part;
    };
    if (auto it = placement.find(name); it != placement.end())
      for (const std::string &axis : it->second) {
        count("tensor", axis, tensorParts);
        count("data", axis, dataParts);
      }
    return size % ways == 0 ? size / ways : 0;
  };
  // Experts are dealt out over a part of the data axis already.
  auto isData = [](const std::string &axis) { return StringRef(axis).starts_with("data"); };
  SmallVector<std::string> over;
  int64_t ranks = zeroRanks;
  if (data && !zeroData.empty())
    over.push_back(zeroData);
  for (const auto &[name, axes] : placement)
    if (llvm::any_of(axes, isData)) {
      over = dataLeft();
      ranks /= dataParts.back();
    }
  if (context)
    over.push_back("context");
  if (over.empty())
    return placement;
  StringRef chosen;
  int64_t longest = -1;
  for (auto [name, size] : llvm::zip(nn::dimNames(type), type.getShape())) {
    int64_t block = blockOf(name.getValue(), size);
    if (block > 0 && block % ranks == 0) {
      chosen = name.getValue();
      break;
    }
    if (size > longest) {
      longest = size;
      chosen = name.getValue();
    }
  }
  if (!chosen.empty())
    llvm::append_range(placement[chosen], over);
  return placement;
}

} // namespace cleave

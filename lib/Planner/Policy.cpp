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

int64_t rowsOfToken(ModuleOp model, plan::SolutionOp solution) {
  int64_t choices = 1, shared = 1;
  model.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (int d = nn::isNamedTensor(type) ? nn::findDim(type, "choice") : -1; d >= 0)
        choices = std::max(choices, cast<RankedTensorType>(type).getDimSize(d));
  });
  plan::AxisTable axes(solution);
  auto batch = plan::entry<plan::LayoutOp>(solution).getDims().getAs<ArrayAttr>("batch");
  const SmallVector<StringAttr> dealt = batch ? axes.expand(batch) : SmallVector<StringAttr>();
  for (auto assign : solution.getOps<plan::AssignOp>())
    if (auto experts = assign.getFactors().getAs<ArrayAttr>("expert");
        experts && llvm::all_of(experts, llvm::IsaPred<StringAttr>)) {
      SmallVector<StringAttr> sharing = axes.expand(experts);
      llvm::erase_if(sharing, [&](StringAttr a) { return !llvm::is_contained(dealt, a); });
      shared = std::max(shared, axes.size(sharing));
    }
  return choices * shared;
}

bool headsDivide(HeadSizes sizes, int64_t tp) {
  return sizes.groups % (tp / std::gcd(tp, sizes.keyHeads)) == 0;
}

std::optional<ExpertSpread> spreadExperts(int64_t ranks, const Degrees &degrees) {
  std::optional<ExpertSpread> best;
  for (int64_t tensor : {int64_t(1), degrees.tp}) {
    if (ranks % tensor != 0)
      continue;
    // What data takes context need not; it needs a divisor of its ranks in any case.
    const int64_t data = std::gcd(ranks / tensor, degrees.dp), context = ranks / tensor / data;
    if (degrees.cp % context == 0 && (!best || context < best->context))
      best = {data, context, tensor};
  }
  return best;
}

/// Gives the last part of the axis `name`, of `size` ranks, to the experts: `share` ranks.
static void takeShare(StringRef name, int64_t size, int64_t share, SmallVector<int64_t> &parts,
                      SmallVector<std::string> &experts) {
  parts = {size};
  if (share == 1)
    return;
  if (share < size)
    parts = {size / share, share};
  experts.push_back(share < size ? (name + ".1").str() : name.str());
}

Policy makePolicy(HeadSizes sizes, const Degrees &degrees, const Pins &pins) {
  Policy policy;
  const int64_t tp = degrees.tp;
  policy.data = degrees.dp > 1;
  policy.context = degrees.cp > 1;
  policy.tensor = tp > 1;
  policy.zeroRanks = pins.zeroGroup.value_or(degrees.dp * degrees.cp);
  policy.zero = policy.zeroRanks > 1 ? pins.zero.value_or(0) : 0;
  const int64_t dp = degrees.dp;
  const ExpertSpread spread =
      spreadExperts(pins.experts.value_or(1), degrees).value_or(ExpertSpread());
  takeShare("data", dp, spread.data, policy.dataParts, policy.experts);
  takeShare("context", degrees.cp, spread.context, policy.contextParts, policy.experts);
  policy.expertsOverTensor = spread.tensor > 1;
  if (policy.expertsOverTensor)
    policy.experts.push_back("tensor");
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

bool crossesNodes(const Degrees &degrees, int64_t pp, const cost::AxisOrder &order,
                  int64_t ranksPerNode) {
  if (ranksPerNode == 0 || degrees.dp * degrees.cp == 1)
    return false;
  const cost::AxisSizes sizes = {degrees.tp, degrees.cp, degrees.dp, pp};
  const int64_t tensor = order.strideOf(cost::MeshAxis::Tensor, sizes),
                place = order.strideOf(cost::MeshAxis::Pipeline, sizes),
                last = (degrees.cp - 1) * order.strideOf(cost::MeshAxis::Context, sizes) +
                       (degrees.dp - 1) * order.strideOf(cost::MeshAxis::Data, sizes);
  for (int64_t p = 0; p < pp; ++p)
    for (int64_t t = 0; t < degrees.tp; ++t) {
      const int64_t first = p * place + t * tensor;
      if (first / ranksPerNode != (first + last) / ranksPerNode)
        return true;
    }
  return false;
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

/// What is left of the axis `name`, which is there if `exists`.
static SmallVector<std::string> leftOf(StringRef name, bool exists, ArrayRef<std::string> experts) {
  if (llvm::is_contained(experts, (name + ".1").str()))
    return {(name + ".0").str()};
  if (!exists || llvm::is_contained(experts, name.str()))
    return {};
  return {name.str()};
}

SmallVector<std::string> Policy::dataLeft() const { return leftOf("data", data, experts); }
SmallVector<std::string> Policy::contextLeft() const { return leftOf("context", context, experts); }

/// Experts see the tokens of all ranks along their axes.
Assignment Policy::assignRouted(const ShardingRule &rule) const {
  Assignment out;
  if (SmallVector<std::string> left = dataLeft(); !left.empty() && canCut(rule, "batch"))
    out["batch"] = left;
  if (SmallVector<std::string> left = contextLeft(); !left.empty() && canCut(rule, "sequence"))
    out["sequence"] = left;
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
        count("context", axis, contextParts);
      }
    return size % ways == 0 ? size / ways : 0;
  };
  SmallVector<std::string> over;
  int64_t ranks = zeroRanks;
  if (data && !zeroData.empty())
    over.push_back(zeroData);
  if (context)
    over.push_back("context");
  // Experts are dealt out over some of these ranks already.
  auto isOfTokens = [](const std::string &axis) {
    return StringRef(axis).starts_with("data") || StringRef(axis).starts_with("context");
  };
  for (const auto &[name, axes] : placement)
    if (llvm::any_of(axes, isOfTokens)) {
      over = dataLeft();
      llvm::append_range(over, contextLeft());
      ranks = 1;
      for (const std::string &axis : over)
        ranks *= StringRef(axis).starts_with("data") ? dataParts.front() : contextParts.front();
    }
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

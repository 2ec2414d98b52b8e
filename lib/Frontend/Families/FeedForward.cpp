//===- FeedForward.cpp - Branches that work on each token alone ----------------===//

#include "lib/Frontend/Families/FeedForward.h"

#include <fmt/format.h>

using mlir::Value;

namespace cleave::frontend {

Branch mlp(MlpShape s) {
  Branch branch;
  const NamedDim ffn = {"ffn", s.width};
  auto linear = [&](const std::string &stem, std::vector<NamedDim> out, std::vector<NamedDim> in) {
    declareLinear(branch.parameters, stem, std::move(out), std::move(in), s.bias, s.std);
  };
  if (!s.packed.empty()) {
    linear(s.packed, {{"gate_up", 2}, ffn}, {s.model});
  } else {
    if (!s.gate.empty())
      linear(s.gate, {ffn}, {s.model});
    linear(s.up, {ffn}, {s.model});
  }
  linear(s.down, {s.model}, {ffn});
  branch.graph = [s = std::move(s)](LayerGraph &g, Value h) {
    auto path = [&](const char *name) { return s.path + name; };
    Value gate, up;
    if (!s.packed.empty()) {
      auto both = g.unstack(path(".split"),
                            g.linear(path(".gate_up"), h, s.packed, {"gate_up", "ffn"}), "gate_up");
      gate = both[0];
      up = both[1];
    } else {
      if (!s.gate.empty())
        gate = g.linear(path(".gate"), h, s.gate, {"ffn"});
      up = g.linear(path(".up"), h, s.up, {"ffn"});
    }
    Value inner = gate ? g.mul(path(".mul"), g.activation(path(".act"), s.activation, gate), up)
                       : g.activation(path(".act"), s.activation, up);
    return g.linear(path(".down"), inner, s.down, {"model"});
  };
  return branch;
}

/// The chosen experts of each token and the weights of their results.
static std::pair<Value, Value> route(LayerGraph &g, const ExpertsShape &s, Value h) {
  Value logits = g.linear("mlp.router", h, s.router, {"expert"}), scores;
  if (s.routing == Routing::Sigmoid)
    scores = g.sigmoid("mlp.scores", logits);
  else if (s.balanced || s.groups > 1 || s.routing == Routing::SoftmaxOfAll)
    scores = g.softmax("mlp.scores", logits);
  Value by = s.routing == Routing::Sigmoid || s.groups > 1 ? scores : logits;
  if (!s.correction.empty())
    by = g.add("mlp.corrected", by, g.parameter(s.correction));
  if (s.groups > 1)
    by = g.keepGroups("mlp.groups", by, s.groups, s.keptGroups, s.groupTake);
  Value index = g.topK("mlp.choose", by, {"choice", s.active});
  if (s.balanced)
    g.count("mlp.count", index, scores);
  if (s.routing == Routing::SoftmaxOfChosen)
    return {index, g.softmax("mlp.weights", g.pick("mlp.chosen", logits, index))};
  Value weights = g.pick("mlp.weights", scores, index);
  if (s.normalized)
    weights = g.normalize("mlp.normalized", weights, 1e-20);
  if (s.factor != 1)
    weights = g.mul("mlp.scaled", weights, g.fill("mlp.factor", weights, s.factor));
  return {index, weights};
}

/// Of the sigmoid in gpt-oss's units.
static constexpr double kGluAlpha = 1.702;

/// Gate and up of each choice.
static std::pair<Value, Value> gateAndUp(LayerGraph &g, const ExpertsShape &s, Value h,
                                         Value index) {
  if (s.packing != ExpertPacking::Stacked)
    return {g.expertLinear("mlp.gate", h, s.gate, index, {"ffn"}),
            g.expertLinear("mlp.up", h, s.up, index, {"ffn"})};
  std::vector<llvm::StringRef> dims = {"gate_up", "ffn"};
  if (s.inTurn)
    std::swap(dims[0], dims[1]);
  Value both = g.expertLinear("mlp.gate_up", h, s.gateUp, index, dims);
  if (s.bias) {
    // The row of a table that an index picks, as a product with 1.
    Value one = g.fill("mlp.gate_up.one", h, {"one", 1}, 1);
    Value row = g.expertLinear("mlp.gate_up.row", one, s.gateUp + "_bias", index, dims);
    both = g.add("mlp.gate_up.bias", both, row);
  }
  auto parts = g.unstack("mlp.split", both, "gate_up");
  return {parts[0], parts[1]};
}

/// Σ weight · down(act(gate h) · up h) over the chosen experts, plus the shared one.
static Value mixture(LayerGraph &g, const ExpertsShape &s, const Branch &shared, Value h) {
  auto [index, weights] = route(g, s, h);
  auto [gate, up] = gateAndUp(g, s, h, index);
  Value inner = s.limit ? g.clampedGlu("mlp.act", gate, up, kGluAlpha, *s.limit)
                        : g.mul("mlp.mul", g.activation("mlp.act", s.activation, gate), up);
  Value weighted = g.mul("mlp.weighted", inner, weights);
  Value each = g.expertLinear("mlp.down", weighted, s.down, index, {"model"});
  Value sum = g.sum("mlp.mix", each, "choice");
  if (s.bias) {
    Value shares = g.spread("mlp.shares", weights, index, {"expert", s.experts});
    sum =
        g.add("mlp.down.bias", sum, g.linear("mlp.down.rows", shares, s.down + "_bias", {"model"}));
  }
  if (!shared.graph)
    return sum;
  Value other = shared.graph(g, h);
  if (!s.sharedGate.empty()) {
    Value logit = g.linear("mlp.shared.router", h, s.sharedGate, {"one"});
    Value share = g.sigmoid("mlp.shared.weight", g.sum("mlp.shared.logit", logit, "one"));
    other = g.mul("mlp.shared.weighted", other, share);
  }
  return g.add("mlp.both", sum, other);
}

Branch experts(const ExpertsShape &s) {
  Branch branch;
  std::vector<Parameter> &parameters = branch.parameters;
  const NamedDim expert = {"expert", s.experts}, ffn = {"ffn", s.width};
  declareLinear(parameters, s.router, {expert}, {s.model}, s.routerBias, s.std);
  if (!s.correction.empty())
    parameters.push_back(parameter(s.correction, {{expert}}, constantInit(0)));
  auto add = [&](const std::string &name, std::vector<std::vector<NamedDim>> groups, double std) {
    parameters.push_back(expertParameter(name, expert, s.active, std::move(groups), {0, std}));
  };
  std::vector<NamedDim> both = {{"gate_up", 2}, ffn};
  if (s.inTurn)
    std::swap(both[0], both[1]);
  switch (s.packing) {
  case ExpertPacking::Separate:
    add(s.gate + ".weight", {{ffn}, {s.model}}, s.std);
    add(s.up + ".weight", {{ffn}, {s.model}}, s.std);
    add(s.down + ".weight", {{s.model}, {ffn}}, s.std);
    break;
  case ExpertPacking::Stacked:
    add(s.gateUp, {{}, {s.model}, both}, s.std);
    if (s.bias) {
      both.insert(both.begin(), {"one", 1});
      add(s.gateUp + "_bias", {{}, both}, 0);
    }
    add(s.down, {{}, {ffn}, {s.model}}, s.std);
    if (s.bias)
      add(s.down + "_bias", {{}, {s.model}}, 0);
    break;
  case ExpertPacking::Rows:
    for (const std::string &name : {s.gate, s.up, s.down})
      add(name, {{ffn}, {s.model}}, s.std);
    break;
  }
  Branch shared;
  if (s.sharedWidth) {
    MlpShape shape = {s.model,
                      s.sharedWidth,
                      s.std,
                      s.activation,
                      s.shared + "gate_proj",
                      s.shared + "up_proj",
                      s.shared + "down_proj"};
    shape.path = "mlp.shared";
    shared = mlp(shape);
    parameters.insert(parameters.end(), shared.parameters.begin(), shared.parameters.end());
  }
  if (!s.sharedGate.empty())
    declareLinear(parameters, s.sharedGate, {{"one", 1}}, {s.model}, false, s.std);
  if (s.balanced) {
    branch.balanced = s.experts;
    branch.active = s.active;
  }
  if (s.routing != Routing::Described)
    branch.graph = [s, shared](LayerGraph &g, Value h) { return mixture(g, s, shared, h); };
  return branch;
}

rt::Status readExperts(Config &config, ModelSizes &sizes, std::string_view key,
                       std::string_view activeKey, int64_t width, Routing routing) {
  const int64_t experts = config.integer(key), active = config.integer(activeKey);
  if (active > experts)
    return config
        .error("config.out_of_range", activeKey,
               fmt::format("a token can't go to {} of {} experts", active, experts))
        .withRule(fmt::format("\"{}\" is at most \"{}\"", activeKey, key))
        .suggest(fmt::format("\"{}\": {}", activeKey, experts))
        .note(fmt::format("{} = {}", key, experts), config.where(key));
  sizes.others.insert(sizes.others.end(), {{"num_experts", experts},
                                           {"num_experts_per_tok", active},
                                           {"moe_intermediate_size", width}});
  if (routing == Routing::Described)
    config.leaveUntrained(key, "layers of experts");
  return rt::Status::success();
}

} // namespace cleave::frontend

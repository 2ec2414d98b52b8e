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
    Value gate, up;
    if (!s.packed.empty()) {
      auto both = g.unstack("mlp.split", g.linear("mlp.gate_up", h, s.packed, {"gate_up", "ffn"}),
                            "gate_up");
      gate = both[0];
      up = both[1];
    } else {
      if (!s.gate.empty())
        gate = g.linear("mlp.gate", h, s.gate, {"ffn"});
      up = g.linear("mlp.up", h, s.up, {"ffn"});
    }
    Value inner = gate ? g.mul("mlp.mul", g.activation("mlp.act", s.activation, gate), up)
                       : g.activation("mlp.act", s.activation, up);
    return g.linear("mlp.down", inner, s.down, {"model"});
  };
  return branch;
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
  const NamedDim both = {"gate_up", 2 * s.width};
  switch (s.packing) {
  case ExpertPacking::Separate:
    add(s.gate + ".weight", {{ffn}, {s.model}}, s.std);
    add(s.up + ".weight", {{ffn}, {s.model}}, s.std);
    add(s.down + ".weight", {{s.model}, {ffn}}, s.std);
    break;
  case ExpertPacking::Stacked:
    add(s.gateUp, {{}, {s.model}, {both}}, s.std);
    if (s.bias)
      add(s.gateUp + "_bias", {{}, {both}}, 0);
    add(s.down, {{}, {ffn}, {s.model}}, s.std);
    if (s.bias)
      add(s.down + "_bias", {{}, {s.model}}, 0);
    break;
  case ExpertPacking::Rows:
    for (const std::string &name : {s.gate, s.up, s.down})
      add(name, {{ffn}, {s.model}}, s.std);
    break;
  }
  if (s.sharedWidth) {
    Branch shared = mlp({s.model, s.sharedWidth, s.std, Activation::Silu, s.shared + "gate_proj",
                         s.shared + "up_proj", s.shared + "down_proj"});
    parameters.insert(parameters.end(), shared.parameters.begin(), shared.parameters.end());
  }
  if (!s.sharedGate.empty())
    declareLinear(parameters, s.sharedGate, {{"one", 1}}, {s.model}, false, s.std);
  return branch;
}

rt::Status readExperts(Config &config, ModelSizes &sizes, std::string_view key,
                       std::string_view activeKey, int64_t width) {
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
  config.leaveUntrained(key, "layers of experts");
  return rt::Status::success();
}

} // namespace cleave::frontend

//===- Attention.cpp - Branches that attend ------------------------------------===//

#include "lib/Frontend/Families/Attention.h"

#include <cmath>

using mlir::Value;

namespace cleave::frontend {

double usualScale(const ModelSizes &sizes) {
  return 1 / std::sqrt(static_cast<double>(sizes.headDim));
}

void turnHeads(Config &config, AttentionShape &shape, const Rope &rope, int64_t width) {
  shape.frequencies = ropeFrequencies(rope, width);
  const double factor = ropeScoreFactor(rope);
  shape.scale *= factor;
  if (factor != 1 && width != shape.sizes.headDim)
    config.leaveUntrained("rope_scaling", "Yarn on a part of a head");
}

static void declareProjections(std::vector<Parameter> &parameters, const AttentionShape &s) {
  auto linear = [&](const std::string &stem, std::vector<NamedDim> out) {
    declareLinear(parameters, stem, std::move(out), {s.model()}, s.inputBias, s.std);
  };
  const NamedDim sections = {"qkv", s.group().size + 2};
  switch (s.packing) {
  case Packing::Separate:
    linear(s.query, {s.kvHead(), s.group(), s.headDim()});
    linear(s.key, {s.kvHead(), s.headDim()});
    linear(s.value, {s.kvHead(), s.headDim()});
    return;
  case Packing::ByKind:
    return linear(s.packed, {sections, s.kvHead(), s.headDim()});
  case Packing::ByHead:
    return linear(s.packed, {s.kvHead(), sections, s.headDim()});
  }
}

/// Queries, keys and values of the stream `h`.
static llvm::SmallVector<Value> project(LayerGraph &g, const AttentionShape &s, Value h) {
  if (s.packing == Packing::Separate)
    return {g.linear("attention.q", h, s.query, {"kv_head", "group", "head_dim"}),
            g.linear("attention.k", h, s.key, {"kv_head", "head_dim"}),
            g.linear("attention.v", h, s.value, {"kv_head", "head_dim"})};
  std::vector<llvm::StringRef> dims = {"kv_head", "qkv", "head_dim"};
  if (s.packing == Packing::ByKind)
    dims = {"qkv", "kv_head", "head_dim"};
  return g.unstack("attention.split", g.linear("attention.qkv", h, s.packed, dims), "qkv");
}

Branch attention(AttentionShape s) {
  Branch branch;
  declareProjections(branch.parameters, s);
  // Packed queries have a key head each, or no graph.
  std::vector<NamedDim> heads = {s.kvHead(), s.group(), s.headDim()};
  if (s.packing != Packing::Separate && !s.isUneven())
    heads = {s.kvHead(), s.headDim()};
  declareLinear(branch.parameters, s.output, {s.model()}, heads, s.outputBias, s.std);
  const bool each = s.headNorms == HeadNorms::EachHead;
  if (s.headNorms != HeadNorms::None) {
    s.norm.declare(branch.parameters, s.queryNorm,
                   each ? std::vector<NamedDim>{s.headDim()} : heads);
    s.norm.declare(branch.parameters, s.keyNorm,
                   each ? std::vector<NamedDim>{s.headDim()}
                        : std::vector<NamedDim>{s.kvHead(), s.headDim()});
  }
  if (!s.sinks.empty())
    branch.parameters.push_back(parameter(s.sinks, {{s.kvHead(), s.group()}}, normalInit(s.std)));
  if (s.isUneven())
    return branch;
  branch.graph = [s = std::move(s)](LayerGraph &g, Value h) {
    auto parts = project(g, s, h);
    if (s.headNorms != HeadNorms::None) {
      parts[0] = s.norm.apply(g, "attention.q_norm", parts[0], s.queryNorm);
      parts[1] = s.norm.apply(g, "attention.k_norm", parts[1], s.keyNorm);
    }
    if (!s.frequencies.empty()) {
      parts[0] = g.rope("attention.q_rope", parts[0], s.frequencies);
      parts[1] = g.rope("attention.k_rope", parts[1], s.frequencies);
    }
    Value sinks = s.sinks.empty() ? Value() : g.parameter(s.sinks);
    Value a = g.attention("attention.scores", parts[0], parts[1], parts[2], s.scale, s.window,
                          s.cap, sinks);
    return g.linear("attention.out", a, s.output, {"model"});
  };
  return branch;
}

/// Queries, keys and values of the stream `h`.
static llvm::SmallVector<Value> projectLatent(LayerGraph &g, const LatentShape &s, Value h) {
  const NamedDim plain = {"plain", s.plainDim}, turned = {"turned", s.ropeDim};
  const NamedDim value = {"value_dim", s.valueDim};
  Value q = h;
  if (s.queryRank) {
    q = g.linear("attention.q_a", h, "self_attn.q_a_proj", {"query_rank"});
    q = s.norm.apply(g, "attention.q_norm", q, "self_attn.q_a_layernorm");
  }
  q = g.linear("attention.q", q, s.queryRank ? "self_attn.q_b_proj" : "self_attn.q_proj",
               {"kv_head", "key_dim"});
  auto query = g.split("attention.q_split", q, {plain, turned});
  Value both = g.linear("attention.kv_a", h, "self_attn.kv_a_proj_with_mqa", {"latent_rope"});
  auto latent = g.split("attention.kv_split", both, {{"latent", s.keyValueRank}, turned});
  Value c = s.norm.apply(g, "attention.kv_norm", latent[0], "self_attn.kv_a_layernorm");
  Value kv = g.linear("attention.kv", c, "self_attn.kv_b_proj", {"kv_head", "key_value_dim"});
  auto keyValue = g.split("attention.k_split", kv, {plain, value});
  query[1] = g.rope("attention.q_rope", query[1], s.frequencies, s.interleaved);
  if (s.turnedFactor != 1)
    query[1] = g.mul("attention.q_scaled", query[1],
                     g.fill("attention.q_factor", query[1], s.turnedFactor));
  Value key = g.rope("attention.k_rope", latent[1], s.frequencies, s.interleaved);
  key = g.add("attention.k_heads", g.fill("attention.k_zeros", keyValue[0], turned, 0), key);
  const NamedDim width = {"head_dim", s.plainDim + s.ropeDim};
  return {g.concat("attention.q_join", {query[0], query[1]}, width),
          g.concat("attention.k_join", {keyValue[0], key}, width), keyValue[1]};
}

Branch latentAttention(const LatentShape &s) {
  Branch branch;
  const NamedDim model = {"model", s.sizes.hiddenSize}, head = {"kv_head", s.sizes.heads};
  auto linear = [&](const char *stem, std::vector<NamedDim> out, std::vector<NamedDim> in,
                    bool bias) {
    declareLinear(branch.parameters, stem, std::move(out), std::move(in), bias, s.std);
  };
  const NamedDim keyDim = {"key_dim", s.plainDim + s.ropeDim};
  if (s.queryRank) {
    const NamedDim rank = {"query_rank", s.queryRank};
    linear("self_attn.q_a_proj", {rank}, {model}, s.bias);
    s.norm.declare(branch.parameters, "self_attn.q_a_layernorm", {rank});
    linear("self_attn.q_b_proj", {head, keyDim}, {rank}, false);
  } else {
    linear("self_attn.q_proj", {head, keyDim}, {model}, false);
  }
  const NamedDim rank = {"latent", s.keyValueRank};
  linear("self_attn.kv_a_proj_with_mqa", {{"latent_rope", s.keyValueRank + s.ropeDim}}, {model},
         s.bias);
  s.norm.declare(branch.parameters, "self_attn.kv_a_layernorm", {rank});
  linear("self_attn.kv_b_proj", {head, {"key_value_dim", s.plainDim + s.valueDim}}, {rank}, false);
  linear("self_attn.o_proj", {model}, {head, {"value_dim", s.valueDim}}, s.bias);
  branch.graph = [s](LayerGraph &g, Value h) {
    auto parts = projectLatent(g, s, h);
    Value a = g.attention("attention.scores", parts[0], parts[1], parts[2], s.scale);
    return g.linear("attention.out", a, "self_attn.o_proj", {"model"});
  };
  return branch;
}

} // namespace cleave::frontend

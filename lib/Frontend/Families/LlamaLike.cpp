//===- LlamaLike.cpp - Blocks of RMS norm, rope and a gated MLP ---------------===//

#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

#include <fmt/format.h>

#include <cmath>

using mlir::Value;

namespace cleave::frontend {

std::span<const ConfigKey> llamaLikeKeys() {
  static constexpr ConfigKey keys[] = {
      requiredSize("hidden_size", kMaxWidth, "width of the residual stream"),
      requiredSize("num_hidden_layers", kMaxLayers, "number of layers"),
      requiredSize("num_attention_heads", kMaxHeads, "number of query heads"),
      derivedSize("num_key_value_heads", kMaxHeads, "number of key and value heads"),
      derivedSize("head_dim", kMaxHeads, "width of a head"),
      requiredSize("intermediate_size", kMaxWidth, "width of the MLP"),
      requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
      text("hidden_act", "silu", "activation of the MLP"),
      number("rms_norm_eps", 1e-6, 0, 1, "added to the mean square in norms"),
      number("initializer_range", 0.02, 0, 100, "standard deviation of fresh matrices"),
      flag("tie_word_embeddings", false, "the output matrix is the embedding"),
      dropout("attention_dropout", 0.0, "dropout on attention weights"),
  };
  return keys;
}

LayerKind LlamaLike::embed() const {
  LayerKind kind{"embed", LayerRole::Embed};
  kind.parameters = {
      parameter("model.embed_tokens.weight", {{vocab()}, {model()}}, normalInit(std))};
  kind.graph = [](LayerGraph &g) {
    Value rows = g.embedding("embed.tokens", "model.embed_tokens.weight", g.tokens());
    g.finish(g.fill("embed.zero", rows, 0.0), rows);
  };
  return kind;
}

LayerKind LlamaLike::block() const {
  LayerKind kind{"block", LayerRole::Block, /*usesPositions=*/true};
  auto norm = [&](const char *stem) {
    kind.parameters.push_back(
        parameter(std::string(stem) + ".weight", {{model()}}, constantInit(1)));
  };
  // A matrix from `in` to `out`, and its bias if the config has them.
  auto linear = [&](const char *stem, std::vector<NamedDim> out, std::vector<NamedDim> in,
                    bool bias) {
    kind.parameters.push_back(
        parameter(std::string(stem) + ".weight", {out, std::move(in)}, normalInit(std)));
    if (bias)
      kind.parameters.push_back(
          parameter(std::string(stem) + ".bias", {std::move(out)}, constantInit(0)));
  };
  norm("input_layernorm");
  linear("self_attn.q_proj", {kvHead(), group(), headDim()}, {model()}, inputBias);
  linear("self_attn.k_proj", {kvHead(), headDim()}, {model()}, inputBias);
  linear("self_attn.v_proj", {kvHead(), headDim()}, {model()}, inputBias);
  linear("self_attn.o_proj", {model()}, {kvHead(), group(), headDim()}, outputBias);
  if (headNorms)
    for (const char *stem : {"self_attn.q_norm", "self_attn.k_norm"})
      kind.parameters.push_back(
          parameter(std::string(stem) + ".weight", {{headDim()}}, constantInit(1)));
  norm("post_attention_layernorm");
  linear("mlp.gate_proj", {ffn()}, {model()}, mlpBias);
  linear("mlp.up_proj", {ffn()}, {model()}, mlpBias);
  linear("mlp.down_proj", {model()}, {ffn()}, mlpBias);

  kind.graph = [eps = eps, activation = activation, frequencies = frequencies,
                headNorms = headNorms,
                scale = 1 / std::sqrt(static_cast<double>(sizes.headDim))](LayerGraph &g) {
    Value x = g.add("attention.residual", g.residual(), g.pending());
    Value h = g.rmsNorm("attention.norm", x, "input_layernorm", eps);
    Value q = g.linear("attention.q", h, "self_attn.q_proj", {"kv_head", "group", "head_dim"});
    Value k = g.linear("attention.k", h, "self_attn.k_proj", {"kv_head", "head_dim"});
    Value v = g.linear("attention.v", h, "self_attn.v_proj", {"kv_head", "head_dim"});
    if (headNorms) {
      q = g.rmsNorm("attention.q_norm", q, "self_attn.q_norm", eps);
      k = g.rmsNorm("attention.k_norm", k, "self_attn.k_norm", eps);
    }
    q = g.rope("attention.q_rope", q, frequencies);
    k = g.rope("attention.k_rope", k, frequencies);
    Value a = g.attention("attention.scores", q, k, v, scale);
    x = g.add("mlp.residual", x, g.linear("attention.out", a, "self_attn.o_proj", {"model"}));
    h = g.rmsNorm("mlp.norm", x, "post_attention_layernorm", eps);
    Value gate = g.linear("mlp.gate", h, "mlp.gate_proj", {"ffn"});
    Value up = g.linear("mlp.up", h, "mlp.up_proj", {"ffn"});
    Value inner = g.mul("mlp.mul", g.activation("mlp.act", activation, gate), up);
    g.finish(x, g.linear("mlp.down", inner, "mlp.down_proj", {"model"}));
  };
  return kind;
}

LayerKind LlamaLike::head() const {
  LayerKind kind{"head", LayerRole::Head};
  const std::string output = outputMatrix();
  kind.parameters = {
      parameter("model.norm.weight", {{model()}}, constantInit(1)),
      outputParameter(tied, "model.embed_tokens.weight", vocab(), model(), normalInit(std))};
  kind.graph = [eps = eps, output](LayerGraph &g) {
    Value x = g.add("head.residual", g.residual(), g.pending());
    Value h = g.rmsNorm("head.norm", x, "model.norm", eps);
    g.finish(g.loss("head.loss", g.linear("head.logits", h, output, {"vocab"})));
  };
  return kind;
}

/// Head counts and width, with what they default to.
static rt::Status readHeads(Config &config, ModelSizes &sizes) {
  sizes.heads = config.integer("num_attention_heads");
  sizes.kvHeads = config.givenInteger("num_key_value_heads").value_or(0);
  if (!sizes.kvHeads)
    sizes.kvHeads = config.derive("num_key_value_heads", sizes.heads, "num_attention_heads");
  if (sizes.heads % sizes.kvHeads)
    return config
        .error("config.heads_indivisible", "num_key_value_heads",
               fmt::format("{} query heads can't share {} key and value heads evenly", sizes.heads,
                           sizes.kvHeads))
        .withRule("num_attention_heads is a multiple of num_key_value_heads")
        .suggest(
            fmt::format("\"num_key_value_heads\": {}", largestDivisor(sizes.heads, sizes.kvHeads)))
        .note(fmt::format("num_attention_heads = {}", sizes.heads),
              config.where("num_attention_heads"));
  sizes.headDim = config.givenInteger("head_dim").value_or(0);
  if (!sizes.headDim) {
    if (sizes.hiddenSize % sizes.heads)
      return config
          .error("config.head_dim_undefined", "hidden_size",
                 fmt::format("without \"head_dim\", a head is hidden_size / num_attention_heads "
                             "wide, and {} / {} is no whole number",
                             sizes.hiddenSize, sizes.heads))
          .withRule("\"head_dim\" is given, or hidden_size is a multiple of num_attention_heads")
          .suggest(fmt::format("\"head_dim\": {}", 2 * ((sizes.hiddenSize / sizes.heads + 1) / 2)))
          .note(fmt::format("num_attention_heads = {}", sizes.heads),
                config.where("num_attention_heads"));
    sizes.headDim = config.derive("head_dim", sizes.hiddenSize / sizes.heads,
                                  "hidden_size / num_attention_heads");
  }
  if (sizes.headDim % 2)
    return config
        .error("config.head_dim_odd", "head_dim",
               fmt::format("a head of width {} can't be rotated in pairs", sizes.headDim))
        .withGiven(fmt::format("head_dim = {}", sizes.headDim))
        .withRule("head_dim is even")
        .suggest(fmt::format("\"head_dim\": {}", sizes.headDim + 1));
  return rt::Status::success();
}

rt::StatusOr<LlamaLike> readLlamaLike(Config &config) {
  LlamaLike family;
  ModelSizes &sizes = family.sizes;
  sizes.hiddenSize = config.integer("hidden_size");
  sizes.layers = config.integer("num_hidden_layers");
  sizes.intermediateSize = config.integer("intermediate_size");
  sizes.vocabSize = config.integer("vocab_size");
  sizes.maxPositions = config.integer("max_position_embeddings");
  CLEAVE_RT_RETURN_IF_ERROR(readHeads(config, sizes));
  CLEAVE_RT_ASSIGN_OR_RETURN(family.activation, readActivation(config, "hidden_act"));
  CLEAVE_RT_ASSIGN_OR_RETURN(const Rope rope, readRope(config));
  family.frequencies = ropeFrequencies(rope, sizes.headDim);
  family.eps = config.number("rms_norm_eps");
  family.std = config.number("initializer_range");
  family.tied = config.flag("tie_word_embeddings");
  return family;
}

FamilyModel LlamaLike::build() const {
  FamilyModel model{sizes, {}};
  Architecture &architecture = model.architecture;
  architecture.call(architecture.addKind(embed()));
  const size_t kind = architecture.addKind(block());
  for (int64_t i = 0; i < sizes.layers; ++i)
    architecture.callBlock(kind, "model.layers.{}.", i);
  architecture.call(architecture.addKind(head()));
  return model;
}

} // namespace cleave::frontend

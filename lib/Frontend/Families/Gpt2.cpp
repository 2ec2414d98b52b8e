//===- Gpt2.cpp - The GPT-2 family -------------------------------------------===//
//
//   x = wte[token] + wpe[position]
//   each layer:  x += c_proj(attention(q, k, v)),  [q | k | v] = c_attn(h),  h = layer_norm(x)
//                x += c_proj(act(c_fc h))                                    h = layer_norm(x)
//   logits = wte · layer_norm(x)
//
// Matrices of a layer are stored [in, out] (Conv1D). Names carry the
// "transformer." prefix of GPT2LMHeadModel.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"

#include <fmt/format.h>

#include <cmath>

using mlir::Value;

namespace cleave::frontend {

static constexpr std::string_view kClassifier = "for classification heads";

static constexpr ConfigKey kKeys[] = {
    requiredSize("n_embd", kMaxWidth, "width of the residual stream").alias("hidden_size"),
    requiredSize("n_layer", kMaxLayers, "number of layers").alias("num_hidden_layers"),
    requiredSize("n_head", kMaxHeads, "number of heads").alias("num_attention_heads"),
    derivedSize("n_inner", kMaxWidth, "width of the MLP"),
    requiredSize("n_positions", kMaxVocabulary, "rows of the position table")
        .alias("max_position_embeddings"),
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    text("activation_function", "gelu_new", "activation of the MLP"),
    number("layer_norm_epsilon", 1e-5, 0, 1, "added to the variance in norms"),
    number("initializer_range", 0.02, 0, 100, "standard deviation of fresh matrices"),
    flag("tie_word_embeddings", true, "the output matrix is the embedding"),
    flag("scale_attn_weights", true, "scores are divided by the root of a head's width"),
    dropout("embd_pdrop", 0.1, "dropout on the embedding"),
    dropout("attn_pdrop", 0.1, "dropout on attention weights"),
    dropout("resid_pdrop", 0.1, "dropout on each branch"),
    fixed("scale_attn_by_inverse_layer_idx", KeyType::Bool, false,
          "every layer would need a graph of its own"),
    ignored("reorder_and_upcast_attn", "the order of rounding only; scores are kept in float32"),
    ignored("n_ctx", "an older name of n_positions that nothing reads"),
    ignored("summary_type", kClassifier),
    ignored("summary_use_proj", kClassifier),
    ignored("summary_activation", kClassifier),
    ignored("summary_proj_to_labels", kClassifier),
    ignored("summary_first_dropout", kClassifier),
};

namespace {

/// A config of the family, understood.
struct Gpt2 {
  ModelSizes sizes;
  Activation activation = Activation::GeluTanh;
  double eps = 0;
  double std = 0;
  bool tied = true;
  bool scaled = true;

  NamedDim model() const { return {"model", sizes.hiddenSize}; }
  NamedDim vocab() const { return {"vocab", sizes.vocabSize}; }
  NamedDim position() const { return {"position", sizes.maxPositions}; }
  NamedDim ffn() const { return {"ffn", sizes.intermediateSize}; }
  NamedDim qkv() const { return {"qkv", 3}; }
  NamedDim head() const { return {"kv_head", sizes.heads}; }
  NamedDim headDim() const { return {"head_dim", sizes.headDim}; }

  LayerKind embedKind() const;
  LayerKind blockKind() const;
  LayerKind headKind() const;
};

void addNorm(LayerKind &kind, const std::string &stem, NamedDim dim) {
  kind.parameters.push_back(parameter(stem + ".weight", {{dim}}, constantInit(1)));
  kind.parameters.push_back(parameter(stem + ".bias", {{dim}}, constantInit(0)));
}

} // namespace

LayerKind Gpt2::embedKind() const {
  LayerKind kind{"embed", LayerRole::Embed, /*usesPositions=*/true};
  kind.parameters = {
      parameter("transformer.wte.weight", {{vocab()}, {model()}}, normalInit(std)),
      parameter("transformer.wpe.weight", {{position()}, {model()}}, normalInit(std))};
  kind.graph = [](LayerGraph &g) {
    Value token = g.embedding("embed.tokens", "transformer.wte.weight", g.tokens());
    g.finish(token, g.embedding("embed.positions", "transformer.wpe.weight", g.positions()));
  };
  return kind;
}

LayerKind Gpt2::blockKind() const {
  LayerKind kind{"block", LayerRole::Block, /*usesPositions=*/true};
  auto conv = [&](const std::string &stem, std::vector<NamedDim> in, std::vector<NamedDim> out,
                  double std) {
    kind.parameters.push_back(parameter(stem + ".weight", {std::move(in), out}, normalInit(std)));
    kind.parameters.push_back(parameter(stem + ".bias", {std::move(out)}, constantInit(0)));
  };
  // Two branches a layer end in the residual stream; each starts smaller, so
  // that the stream's variance does not grow with depth.
  const double residualStd = std / std::sqrt(2.0 * static_cast<double>(sizes.layers));
  addNorm(kind, "ln_1", model());
  conv("attn.c_attn", {model()}, {qkv(), head(), headDim()}, std);
  conv("attn.c_proj", {head(), headDim()}, {model()}, residualStd);
  addNorm(kind, "ln_2", model());
  conv("mlp.c_fc", {model()}, {ffn()}, std);
  conv("mlp.c_proj", {ffn()}, {model()}, residualStd);

  const double scale = scaled ? 1 / std::sqrt(static_cast<double>(sizes.headDim)) : 1.0;
  kind.graph = [eps = eps, activation = activation, scale](LayerGraph &g) {
    Value x = g.add("attention.residual", g.residual(), g.pending());
    Value h = g.layerNorm("attention.norm", x, "ln_1", eps);
    Value qkv = g.linear("attention.qkv", h, "attn.c_attn", {"qkv", "kv_head", "head_dim"});
    auto parts = g.unstack("attention.split", qkv, "qkv");
    Value a = g.attention("attention.scores", parts[0], parts[1], parts[2], scale);
    x = g.add("mlp.residual", x, g.linear("attention.out", a, "attn.c_proj", {"model"}));
    h = g.layerNorm("mlp.norm", x, "ln_2", eps);
    Value up = g.linear("mlp.up", h, "mlp.c_fc", {"ffn"});
    Value inner = g.activation("mlp.act", activation, up);
    g.finish(x, g.linear("mlp.down", inner, "mlp.c_proj", {"model"}));
  };
  return kind;
}

LayerKind Gpt2::headKind() const {
  LayerKind kind{"head", LayerRole::Head};
  const std::string output = tied ? "transformer.wte" : "lm_head";
  addNorm(kind, "transformer.ln_f", model());
  kind.parameters.push_back(
      outputParameter(tied, "transformer.wte.weight", vocab(), model(), normalInit(std)));
  kind.graph = [eps = eps, output](LayerGraph &g) {
    Value x = g.add("head.residual", g.residual(), g.pending());
    Value h = g.layerNorm("head.norm", x, "transformer.ln_f", eps);
    g.finish(g.loss("head.loss", g.linear("head.logits", h, output, {"vocab"})));
  };
  return kind;
}

static rt::Status readSizes(Config &config, ModelSizes &sizes) {
  sizes.hiddenSize = config.integer("n_embd");
  sizes.layers = config.integer("n_layer");
  sizes.heads = sizes.kvHeads = config.integer("n_head");
  sizes.vocabSize = config.integer("vocab_size");
  sizes.maxPositions = config.integer("n_positions");
  sizes.intermediateSize = config.givenInteger("n_inner").value_or(0);
  if (!sizes.intermediateSize)
    sizes.intermediateSize = config.derive("n_inner", 4 * sizes.hiddenSize, "4 · n_embd");
  if (sizes.hiddenSize % sizes.heads)
    return config
        .error(
            "config.heads_indivisible", "n_head",
            fmt::format("a width of {} can't be cut into {} heads", sizes.hiddenSize, sizes.heads))
        .withRule("n_embd is a multiple of n_head")
        .suggest(fmt::format("\"n_head\": {}", largestDivisor(sizes.hiddenSize, sizes.heads)))
        .note(fmt::format("n_embd = {}", sizes.hiddenSize), config.where("n_embd"));
  sizes.headDim = sizes.hiddenSize / sizes.heads;
  return rt::Status::success();
}

static rt::StatusOr<FamilyModel> describe(Config &config) {
  Gpt2 gpt2;
  CLEAVE_RT_RETURN_IF_ERROR(readSizes(config, gpt2.sizes));
  CLEAVE_RT_ASSIGN_OR_RETURN(gpt2.activation, readActivation(config, "activation_function"));
  gpt2.eps = config.number("layer_norm_epsilon");
  gpt2.std = config.number("initializer_range");
  gpt2.tied = config.flag("tie_word_embeddings");
  gpt2.scaled = config.flag("scale_attn_weights");

  FamilyModel model{gpt2.sizes, {}};
  Architecture &architecture = model.architecture;
  architecture.call(architecture.addKind(gpt2.embedKind()));
  const size_t block = architecture.addKind(gpt2.blockKind());
  for (int64_t i = 0; i < gpt2.sizes.layers; ++i)
    architecture.callBlock(block, "transformer.h.{}.", i);
  architecture.call(architecture.addKind(gpt2.headKind()));
  return model;
}

static std::vector<std::span<const ConfigKey>> tables() { return {kKeys}; }

const Family gpt2Family = {"gpt2", "GPT2LMHeadModel", tables, describe};

} // namespace cleave::frontend

//===- LlamaLike.cpp - Blocks of RMS norm, rope and a gated MLP ---------------===//

#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

#include <fmt/format.h>

namespace cleave::frontend {

std::span<const ConfigKey> sizeKeys() {
  static constexpr ConfigKey keys[] = {
      requiredSize("hidden_size", kMaxWidth, "width of the residual stream"),
      requiredSize("num_hidden_layers", kMaxLayers, "number of layers"),
      requiredSize("num_attention_heads", kMaxHeads, "number of query heads"),
      derivedSize("num_key_value_heads", kMaxHeads, "number of key and value heads"),
      derivedSize("head_dim", kMaxHeads, "width of a head"),
      requiredSize("intermediate_size", kMaxWidth, "width of the MLP"),
      number("initializer_range", 0.02, 0, 100, "standard deviation of fresh matrices"),
      dropout("attention_dropout", 0.0, "dropout on attention weights"),
  };
  return keys;
}

std::span<const ConfigKey> llamaLikeKeys() {
  static constexpr ConfigKey keys[] = {
      requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
      text("hidden_act", "silu", "activation of the MLP"),
      number("rms_norm_eps", 1e-6, 0, 1, "added to the mean square in norms"),
      flag("tie_word_embeddings", false, "the output matrix is the embedding"),
  };
  return keys;
}

BlockKind LlamaLike::block(std::string name) const {
  return block(std::move(name), frontend::mlp(mlp));
}

BlockKind LlamaLike::block(std::string name, Branch feedForward) const {
  return {std::move(name), frontend::attention(attention), std::move(feedForward)};
}

FamilyModel LlamaLike::build(const LlamaLike &windowed, const std::vector<bool> &sliding) const {
  return windowed.decoder.build({block("full"), windowed.block("sliding")},
                                [&](int64_t i) { return size_t(sliding[i]); });
}

void LlamaLike::setWindow(int64_t window) {
  attention.window = window;
  decoder.sizes.others.emplace_back("sliding_window", window);
}

/// Head counts and width, with what they default to.
static rt::Status readHeads(Config &config, ModelSizes &sizes, const Defaults &defaults) {
  sizes.heads = config.integer("num_attention_heads");
  sizes.kvHeads = config.givenInteger("num_key_value_heads").value_or(0);
  if (!sizes.kvHeads && defaults.kvHeads && !config.isNull("num_key_value_heads"))
    sizes.kvHeads = config.derive("num_key_value_heads", defaults.kvHeads, "default of the family");
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
  if (!sizes.headDim && defaults.headDim && !config.isNull("head_dim"))
    sizes.headDim = config.derive("head_dim", defaults.headDim, "default of the family");
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

rt::StatusOr<ModelSizes> readSizes(Config &config, const Defaults &defaults) {
  ModelSizes sizes;
  sizes.hiddenSize = config.integer("hidden_size");
  sizes.layers = config.integer("num_hidden_layers");
  sizes.intermediateSize = config.integer("intermediate_size");
  sizes.vocabSize = config.integer("vocab_size");
  sizes.maxPositions = config.integer("max_position_embeddings");
  CLEAVE_RT_RETURN_IF_ERROR(readHeads(config, sizes, defaults));
  return sizes;
}

rt::StatusOr<LlamaLike> readLlamaLike(Config &config, const Defaults &defaults) {
  LlamaLike family;
  CLEAVE_RT_ASSIGN_OR_RETURN(const ModelSizes sizes, readSizes(config, defaults));
  CLEAVE_RT_ASSIGN_OR_RETURN(const Activation function,
                             readActivation(config, defaults.activation));
  CLEAVE_RT_ASSIGN_OR_RETURN(const Rope rope, readRope(config, defaults.theta));
  const double std = config.number("initializer_range");
  const Norm norm{Norm::Kind::Rms, config.number("rms_norm_eps")};
  family.decoder.sizes = sizes;
  family.decoder.norm = norm;
  family.decoder.std = std;
  family.decoder.tied = config.flag("tie_word_embeddings");
  family.attention.sizes = sizes;
  family.attention.std = std;
  family.attention.norm = norm;
  family.attention.scale = usualScale(sizes);
  turnHeads(config, family.attention, rope, sizes.headDim);
  family.mlp = {{"model", sizes.hiddenSize}, sizes.intermediateSize, std, function};
  return family;
}

rt::StatusOr<std::vector<bool>> readSliding(Config &config, int64_t layers,
                                            const std::function<bool(int64_t)> &otherwise) {
  std::vector<bool> sliding(layers);
  const rt::JsonValue *types = config.given("layer_types");
  if (!types) {
    for (int64_t i = 0; i < layers; ++i)
      sliding[i] = otherwise(i);
    return sliding;
  }
  auto refuse = [&](const rt::JsonValue &at, std::string message) -> rt::Error {
    return config.errorAt("config.wrong_type", at, "layer_types", std::move(message))
        .withRule("\"layer_types\" names each layer's attention: \"sliding_attention\" or "
                  "\"full_attention\"")
        .suggest(fmt::format("a list of {}", layers));
  };
  if (!types->isArray() || static_cast<int64_t>(types->elements().size()) != layers)
    return refuse(*types, fmt::format("\"layer_types\" is no list of {} types", layers));
  for (int64_t i = 0; i < layers; ++i) {
    const rt::JsonValue &type = types->elements()[i];
    sliding[i] = type.isString() && type.string() == "sliding_attention";
    if (!sliding[i] && !(type.isString() && type.string() == "full_attention"))
      return refuse(type, fmt::format("layer {} has no known type of attention", i));
  }
  return sliding;
}

} // namespace cleave::frontend

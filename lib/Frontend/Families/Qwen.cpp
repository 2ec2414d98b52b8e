//===- Qwen.cpp - Qwen2 (and 2.5) and Qwen3, dense ----------------------------===//
//
// Qwen2 is Llama with biases on q, k and v, whatever the config says. Qwen3 has
// none of these and normalises queries and keys over the width of a head.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

namespace cleave::frontend {

static constexpr ConfigKey kKeys[] = {
    size("max_position_embeddings", 32768, kMaxVocabulary, "longest sequence"),
    flag("use_sliding_window", false, "layers from max_window_layers on have a window"),
    derivedSize("sliding_window", kMaxVocabulary, "how far back attention reaches"),
    {"max_window_layers", KeyType::Integer, KeyUse::Optional, int64_t(28), 0, kMaxLayers,
     "layers without a window at the start"},
    structured("layer_types", "which layers have the window"),
};
static constexpr ConfigKey kBias[] = {
    flag("attention_bias", false, "biases on q, k, v and o"),
};

/// The model, with a window in later layers where that is switched on.
static rt::StatusOr<FamilyModel> build(Config &config, LlamaLike &qwen) {
  if (!config.flag("use_sliding_window") || config.isNull("sliding_window"))
    return qwen.build();
  const LlamaLike full = qwen;
  const std::optional<int64_t> window = config.givenInteger("sliding_window");
  qwen.setWindow(window ? *window : config.derive("sliding_window", 4096, "default of the family"));
  const int64_t first = config.integer("max_window_layers");
  CLEAVE_RT_ASSIGN_OR_RETURN(
      const std::vector<bool> sliding,
      readSliding(config, qwen.decoder.sizes.layers, [&](int64_t i) { return i >= first; }));
  return full.build(qwen, sliding);
}

static rt::StatusOr<FamilyModel> describeQwen2(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike qwen, readLlamaLike(config, {.kvHeads = 32}));
  qwen.attention.inputBias = true;
  return build(config, qwen);
}

static rt::StatusOr<FamilyModel> describeQwen3(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike qwen,
                             readLlamaLike(config, {.kvHeads = 32, .headDim = 128}));
  qwen.attention.inputBias = qwen.attention.outputBias = config.flag("attention_bias");
  qwen.attention.headNorms = HeadNorms::EachHead;
  return build(config, qwen);
}

static std::vector<std::span<const ConfigKey>> qwen2Tables() {
  return {sizeKeys(), llamaLikeKeys(), kKeys, ropeKeys()};
}
static std::vector<std::span<const ConfigKey>> qwen3Tables() {
  return {sizeKeys(), llamaLikeKeys(), kKeys, kBias, ropeKeys()};
}

const Family qwen2Family = {"qwen2", "Qwen2ForCausalLM", qwen2Tables, describeQwen2};
const Family qwen3Family = {"qwen3", "Qwen3ForCausalLM", qwen3Tables, describeQwen3};

} // namespace cleave::frontend

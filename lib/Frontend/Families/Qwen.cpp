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
    ignored("max_window_layers", "a window counts as if all layers had it"),
    ignored("layer_types", "follows from use_sliding_window"),
};
static constexpr ConfigKey kBias[] = {
    flag("attention_bias", false, "biases on q, k, v and o"),
};

/// The window, where it is switched on.
static void readWindow(Config &config, FamilyModel &model) {
  if (!config.flag("use_sliding_window"))
    return;
  model.window = config.givenInteger("sliding_window");
  if (!model.window)
    model.window = config.derive("sliding_window", 4096, "default of the family");
}

static rt::StatusOr<FamilyModel> describeQwen2(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike qwen, readLlamaLike(config, {.kvHeads = 32}));
  qwen.attention.inputBias = true;
  FamilyModel model = qwen.build();
  readWindow(config, model);
  return model;
}

static rt::StatusOr<FamilyModel> describeQwen3(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike qwen,
                             readLlamaLike(config, {.kvHeads = 32, .headDim = 128}));
  qwen.attention.inputBias = qwen.attention.outputBias = config.flag("attention_bias");
  qwen.attention.headNorms = HeadNorms::EachHead;
  FamilyModel model = qwen.build();
  readWindow(config, model);
  return model;
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

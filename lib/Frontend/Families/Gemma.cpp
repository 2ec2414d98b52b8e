//===- Gemma.cpp - Gemma 1, 2 and 3 (text) -------------------------------------===//
//
//   x = tokens' embeddings · √hidden_size
//   norms multiply by 1 + weight, and are before branches; from Gemma 2 on also after them
//   Gemma 2: layers with a window and layers without take turns; scores and logits are capped
//   Gemma 3: five layers with a window, whose rope has a base of its own, then one without;
//            norms on the heads of queries and keys instead of caps
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

#include <cmath>

namespace cleave::frontend {

static constexpr ConfigKey kKeys[] = {
    text("hidden_activation", "gelu_pytorch_tanh", "activation of the MLP"),
    number("rms_norm_eps", 1e-6, 0, 1, "added to the mean square in norms"),
    flag("tie_word_embeddings", true, "the output matrix is the embedding"),
    flag("attention_bias", false, "biases on q, k, v and o"),
    untrained("use_bidirectional_attention", KeyType::Any, false, "attention to what follows"),
    ignored("hidden_act", "hidden_activation decides, also where it is left out"),
};
static constexpr ConfigKey kGemma1Keys[] = {
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    size("max_position_embeddings", 8192, kMaxVocabulary, "longest sequence"),
};
static constexpr ConfigKey kCapKeys[] = {
    number("query_pre_attn_scalar", 256, 1e-6, 1e12, "scores are divided by its root"),
    {"attn_logit_softcapping",
     KeyType::Number,
     KeyUse::Derived,
     {},
     1e-6,
     1e12,
     "bound of the scores"},
    {"final_logit_softcapping",
     KeyType::Number,
     KeyUse::Derived,
     {},
     1e-6,
     1e12,
     "bound of the logits"},
    size("sliding_window", 4096, kMaxVocabulary, "how far back attention reaches in some layers")
        .alias("sliding_window_size"),
    structured("layer_types", "which layers have the window"),
    ignored("cache_implementation", "for inference only"),
};
static constexpr ConfigKey kGemma2Keys[] = {
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    size("max_position_embeddings", 8192, kMaxVocabulary, "longest sequence"),
};
static constexpr ConfigKey kGemma3Keys[] = {
    size("vocab_size", 262208, kMaxVocabulary, "number of tokens"),
    size("max_position_embeddings", 131072, kMaxVocabulary, "longest sequence"),
    size("sliding_window_pattern", 6, kMaxLayers, "every how many layers one has no window")
        .alias("_sliding_window_pattern"),
    number("rope_local_base_freq", 10000, 1e-6, 1e12, "base of rope in layers with a window"),
};

static rt::StatusOr<LlamaLike> readGemma(Config &config, Defaults defaults) {
  defaults.headDim = 256;
  defaults.activation = "hidden_activation";
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike gemma, readLlamaLike(config, defaults));
  gemma.decoder.norm.aroundOne = gemma.attention.norm.aroundOne = true;
  gemma.decoder.embeddingFactor = std::sqrt(static_cast<double>(gemma.decoder.sizes.hiddenSize));
  gemma.attention.inputBias = gemma.attention.outputBias = config.flag("attention_bias");
  return gemma;
}

/// A cap, or 0 for none; `standard`: that of files without the key.
static double readCap(Config &config, std::string_view name, double standard) {
  if (const rt::JsonValue *given = config.given(name))
    return given->number();
  if (config.isNull(name) || standard == 0)
    return 0;
  config.noteDefault(std::string(name), rt::JsonValue(standard), "default of the family");
  return standard;
}

/// What Gemma 2 and 3 share beyond that.
static void addPostNorms(Config &config, LlamaLike &gemma, double scoreCap, double logitCap) {
  Decoder &decoder = gemma.decoder;
  decoder.attentionPostNorm = "post_attention_layernorm";
  decoder.feedForwardNorm = "pre_feedforward_layernorm";
  decoder.feedForwardPostNorm = "post_feedforward_layernorm";
  gemma.attention.scale *= std::sqrt(static_cast<double>(gemma.attention.sizes.headDim) /
                                     config.number("query_pre_attn_scalar"));
  gemma.attention.cap = readCap(config, "attn_logit_softcapping", scoreCap);
  decoder.logitCap = readCap(config, "final_logit_softcapping", logitCap);
}

/// `full` with `windowed` in some layers.
static FamilyModel build(const Config &config, const LlamaLike &full, LlamaLike windowed,
                         const std::vector<bool> &sliding) {
  windowed.setWindow(config.integer("sliding_window"));
  return full.build(windowed, sliding);
}

static rt::StatusOr<FamilyModel> describeGemma1(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike gemma, readGemma(config, {.kvHeads = 16}));
  return gemma.build();
}

static rt::StatusOr<FamilyModel> describeGemma2(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike gemma, readGemma(config, {.kvHeads = 4}));
  addPostNorms(config, gemma, 50, 30);
  CLEAVE_RT_ASSIGN_OR_RETURN(
      const std::vector<bool> sliding,
      readSliding(config, gemma.decoder.sizes.layers, [](int64_t i) { return i % 2 == 0; }));
  return build(config, gemma, gemma, sliding);
}

static rt::StatusOr<FamilyModel> describeGemma3(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike full, readGemma(config, {.kvHeads = 4, .theta = 1e6}));
  addPostNorms(config, full, 0, 0);
  full.attention.headNorms = HeadNorms::EachHead;
  LlamaLike windowed = full;
  windowed.attention.scale = 1 / std::sqrt(config.number("query_pre_attn_scalar"));
  windowed.attention.frequencies =
      ropeFrequencies(Rope{config.number("rope_local_base_freq")}, full.attention.sizes.headDim);
  const int64_t pattern = config.integer("sliding_window_pattern");
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::vector<bool> sliding,
                             readSliding(config, full.decoder.sizes.layers,
                                         [&](int64_t i) { return (i + 1) % pattern != 0; }));
  return build(config, full, windowed, sliding);
}

static std::vector<std::span<const ConfigKey>> gemma1Tables() {
  return {sizeKeys(), kGemma1Keys, kKeys, ropeKeys()};
}
static std::vector<std::span<const ConfigKey>> gemma2Tables() {
  return {sizeKeys(), kGemma2Keys, kKeys, kCapKeys, ropeKeys()};
}
static std::vector<std::span<const ConfigKey>> gemma3Tables() {
  return {sizeKeys(), kGemma3Keys, kKeys, kCapKeys, ropeKeys(), otherMediaKeys()};
}

const Family gemmaFamily = {"gemma", "GemmaForCausalLM", gemma1Tables, describeGemma1};
const Family gemma2Family = {"gemma2", "Gemma2ForCausalLM", gemma2Tables, describeGemma2};
const Family gemma3TextFamily = {"gemma3_text", "Gemma3ForCausalLM", gemma3Tables, describeGemma3};

} // namespace cleave::frontend

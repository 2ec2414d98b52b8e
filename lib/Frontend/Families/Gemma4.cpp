//===- Gemma4.cpp - Gemma 4 (text), with experts or without ---------------------------===//
//
// Gemma 3's layers with wider heads in layers without a window, where keys may serve as
// values, and experts beside the MLP. Described and counted, not trained.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"

namespace cleave::frontend {

static constexpr std::string_view kLater = "of layers that are not trained yet";

static constexpr ConfigKey kKeys[] = {
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    size("max_position_embeddings", 131072, kMaxVocabulary, "longest sequence"),
    size("global_head_dim", 512, kMaxHeads, "width of a head in layers without a window"),
    derivedSize("num_global_key_value_heads", kMaxHeads, "key heads where keys serve as values"),
    flag("attention_k_eq_v", false, "keys serve as values in layers without a window"),
    flag("attention_bias", false, "biases on q, k, v and o"),
    text("hidden_activation", "gelu_pytorch_tanh", "activation of the MLP"),
    number("rms_norm_eps", 1e-6, 0, 1, "added to the mean square in norms"),
    flag("tie_word_embeddings", true, "the output matrix is the embedding"),
    size("sliding_window", 512, kMaxVocabulary, "how far back attention reaches in some layers"),
    structured("layer_types", "which layers have the window"),
    flag("enable_moe_block", false, "experts beside the MLP"),
    derivedSize("num_experts", kMaxHeads, "experts of a layer"),
    derivedSize("top_k_experts", kMaxHeads, "experts that a token is sent to"),
    derivedSize("moe_intermediate_size", kMaxWidth, "width of an expert"),
    fixed("hidden_size_per_layer_input", KeyType::Integer, int64_t(0), "an embedding a layer"),
    fixed("num_kv_shared_layers", KeyType::Integer, int64_t(0), "layers without keys"),
    fixed("use_double_wide_mlp", KeyType::Bool, false, "wider MLPs in layers without keys"),
    ignored("final_logit_softcapping", kLater),
    ignored("rope_parameters", kLater),
    ignored("use_bidirectional_attention", "for tokens of other media"),
    ignored("vocab_size_per_layer_input", "there are no embeddings a layer"),
};

/// Attention with or without a window.
static Branch attention(const Config &config, ModelSizes sizes, const Decoder &decoder,
                        bool sliding) {
  const bool shared = !sliding && config.flag("attention_k_eq_v");
  if (!sliding)
    sizes.headDim = config.integer("global_head_dim");
  if (shared)
    sizes.kvHeads = config.givenInteger("num_global_key_value_heads").value_or(sizes.kvHeads);
  AttentionShape shape;
  shape.sizes = sizes;
  shape.std = decoder.std;
  shape.inputBias = shape.outputBias = config.flag("attention_bias");
  shape.headNorms = HeadNorms::EachHead;
  shape.norm = decoder.norm;
  Branch branch = attention(shape);
  if (shared)
    std::erase_if(branch.parameters,
                  [&](const Parameter &p) { return p.name.starts_with(shape.value); });
  branch.graph = nullptr; // there is no operator for norms without weights on values
  return branch;
}

/// The MLP and the experts beside it, with the norms between.
static rt::StatusOr<Branch> feedForward(Config &config, Decoder &decoder) {
  const NamedDim model = decoder.model();
  CLEAVE_RT_ASSIGN_OR_RETURN(const Activation function,
                             readActivation(config, "hidden_activation"));
  Branch branch = mlp({model, decoder.sizes.intermediateSize, decoder.std, function});
  if (!config.flag("enable_moe_block"))
    return branch;
  for (std::string_view key : {"num_experts", "top_k_experts", "moe_intermediate_size"})
    if (!config.given(key))
      return config.error("config.missing_key", key, "experts need their number and width")
          .withRule("with \"enable_moe_block\", num_experts, top_k_experts and "
                    "moe_intermediate_size are given")
          .suggest("\"enable_moe_block\": false");
  const int64_t width = *config.givenInteger("moe_intermediate_size");
  CLEAVE_RT_RETURN_IF_ERROR(
      readExperts(config, decoder.sizes, "num_experts", "top_k_experts", width));
  const int64_t active = *config.givenInteger("top_k_experts");
  const NamedDim expert = {"expert", *config.givenInteger("num_experts")};
  std::vector<Parameter> &parameters = branch.parameters;
  for (const char *stem : {"post_feedforward_layernorm_1", "post_feedforward_layernorm_2",
                           "pre_feedforward_layernorm_2"})
    decoder.norm.declare(parameters, stem, {model});
  declareLinear(parameters, "router.proj", {expert}, {model}, false, decoder.std);
  parameters.push_back(parameter("router.scale", {{model}}, constantInit(1)));
  parameters.push_back(parameter("router.per_expert_scale", {{expert}}, constantInit(1)));
  parameters.push_back(expertParameter("experts.gate_up_proj", expert, active,
                                       {{}, {{"gate_up", 2}, {"ffn", width}}, {model}},
                                       normalInit(decoder.std)));
  parameters.push_back(expertParameter("experts.down_proj", expert, active,
                                       {{}, {model}, {{"ffn", width}}}, normalInit(decoder.std)));
  return branch;
}

static rt::StatusOr<FamilyModel> describe(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const ModelSizes sizes,
                             readSizes(config, {.kvHeads = 4, .headDim = 256}));
  Decoder decoder;
  decoder.sizes = sizes;
  decoder.sizes.others = {{"global_head_dim", config.integer("global_head_dim")},
                          {"sliding_window", config.integer("sliding_window")}};
  decoder.norm = {Norm::Kind::Rms, config.number("rms_norm_eps")};
  decoder.std = config.number("initializer_range");
  decoder.tied = config.flag("tie_word_embeddings");
  decoder.attentionPostNorm = "post_attention_layernorm";
  decoder.feedForwardNorm = "pre_feedforward_layernorm";
  decoder.feedForwardPostNorm = "post_feedforward_layernorm";
  config.leaveUntrained("model_type", "norms without weights on values");
  CLEAVE_RT_ASSIGN_OR_RETURN(const Branch inner, feedForward(config, decoder));
  CLEAVE_RT_ASSIGN_OR_RETURN(
      const std::vector<bool> sliding,
      readSliding(config, sizes.layers, [](int64_t i) { return (i + 1) % 6 != 0; }));
  return decoder.build({{"full", attention(config, sizes, decoder, false), inner},
                        {"sliding", attention(config, sizes, decoder, true), inner}},
                       [&](int64_t i) { return size_t(sliding[i]); });
}

static std::vector<std::span<const ConfigKey>> tables() {
  return {sizeKeys(), kKeys, otherMediaKeys()};
}

const Family gemma4TextFamily = {"gemma4_text", "Gemma4ForCausalLM", tables, describe};

} // namespace cleave::frontend

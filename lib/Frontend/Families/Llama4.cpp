//===- Llama4.cpp - The text of Llama 4 ---------------------------------------------===//
//
// Llama's layers with experts and a shared one in every layer or every second one, whose
// weights files hold stacked; attention in chunks. Described and counted, not trained.
// `intermediate_size` is the width of an expert, `intermediate_size_mlp` that of dense
// layers.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

#include <algorithm>

namespace cleave::frontend {

static constexpr std::string_view kRouter = "for routers, which are not trained yet";
static constexpr std::string_view kLater = "of attention in chunks, which is not trained yet";

static constexpr ConfigKey kKeys[] = {
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    text("hidden_act", "silu", "activation of the MLP"),
    number("rms_norm_eps", 1e-5, 0, 1, "added to the mean square in norms"),
    flag("tie_word_embeddings", false, "the output matrix is the embedding"),
    size("max_position_embeddings", 131072, kMaxVocabulary, "longest sequence"),
    flag("attention_bias", false, "biases on q, k, v and o"),
    size("intermediate_size_mlp", 16384, kMaxWidth, "width of the MLP in dense layers"),
    size("num_local_experts", 16, kMaxHeads, "experts of a layer"),
    size("num_experts_per_tok", 1, kMaxHeads, "experts that a token is sent to"),
    size("interleave_moe_layer_step", 1, kMaxLayers, "every how many layers experts stand"),
    structured("moe_layers", "layers that have experts"),
    ignored("attention_chunk_size", kLater),
    ignored("layer_types", kLater),
    ignored("no_rope_layers", kLater),
    ignored("no_rope_layer_interval", kLater),
    ignored("attn_temperature_tuning", kLater),
    ignored("floor_scale", kLater),
    ignored("attn_scale", kLater),
    ignored("use_qk_norm", "norms without weights"),
    ignored("router_aux_loss_coef", kRouter),
    ignored("router_jitter_noise", kRouter),
    ignored("output_router_logits", kRouter),
    ignored("for_llm_compressor", "how weights are stored"),
};

/// Whether each layer has experts.
static rt::StatusOr<std::vector<bool>> readSparse(const Config &config, int64_t layers) {
  std::vector<bool> sparse(layers);
  const rt::JsonValue *listed = config.given("moe_layers");
  if (!listed) {
    const int64_t step = config.integer("interleave_moe_layer_step");
    for (int64_t i = step - 1; i < layers; i += step)
      sparse[i] = true;
    return sparse;
  }
  if (listed->isArray() && std::ranges::all_of(listed->elements(), [&](const rt::JsonValue &layer) {
        return layer.isInteger() && layer.integer() >= 0 && layer.integer() < layers;
      })) {
    for (const rt::JsonValue &layer : listed->elements())
      sparse[layer.integer()] = true;
    return sparse;
  }
  return config
      .errorAt("config.wrong_type", *listed, "moe_layers", "\"moe_layers\" is no list of layers")
      .withRule("\"moe_layers\" lists numbers of layers, from 0")
      .suggest("null");
}

static rt::StatusOr<FamilyModel> describe(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike llama,
                             readLlamaLike(config, {.kvHeads = 8, .theta = 500000}));
  Decoder &decoder = llama.decoder;
  decoder.sizes.others = {{"intermediate_size_mlp", config.integer("intermediate_size_mlp")}};
  llama.attention.inputBias = llama.attention.outputBias = config.flag("attention_bias");
  llama.mlp.width = config.integer("intermediate_size_mlp");
  llama.mlp.gate = "feed_forward.gate_proj";
  llama.mlp.up = "feed_forward.up_proj";
  llama.mlp.down = "feed_forward.down_proj";
  ExpertsShape shape;
  shape.model = decoder.model();
  shape.std = decoder.std;
  shape.experts = config.integer("num_local_experts");
  shape.active = config.integer("num_experts_per_tok");
  shape.width = shape.sharedWidth = decoder.sizes.intermediateSize;
  shape.packing = ExpertPacking::Stacked;
  shape.router = "feed_forward.router";
  shape.gateUp = "feed_forward.experts.gate_up_proj";
  shape.down = "feed_forward.experts.down_proj";
  shape.shared = "feed_forward.shared_expert.";
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::vector<bool> sparse,
                             readSparse(config, decoder.sizes.layers));
  config.leaveUntrained("model_type", "attention in chunks");
  CLEAVE_RT_RETURN_IF_ERROR(
      readExperts(config, decoder.sizes, "num_local_experts", "num_experts_per_tok", shape.width));
  return decoder.build({llama.block("dense"), llama.block("sparse", experts(shape))},
                       [&](int64_t i) { return size_t(sparse[i]); });
}

static std::vector<std::span<const ConfigKey>> tables() {
  return {sizeKeys(), kKeys, ropeKeys(), otherMediaKeys()};
}

const Family llama4TextFamily = {"llama4_text", "Llama4ForCausalLM", tables, describe};

} // namespace cleave::frontend

//===- GptOss.cpp - gpt-oss ---------------------------------------------------------===//
//
// Llama's layers with biases, a learned sink for each head's scores, a window in every
// other layer, and experts with biases whose weights files hold stacked.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

namespace cleave::frontend {

static constexpr ConfigKey kKeys[] = {
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    text("hidden_act", "silu", "activation of the experts"),
    number("rms_norm_eps", 1e-5, 0, 1, "added to the mean square in norms"),
    flag("tie_word_embeddings", false, "the output matrix is the embedding"),
    size("max_position_embeddings", 131072, kMaxVocabulary, "longest sequence"),
    flag("attention_bias", true, "biases on q, k, v and o"),
    size("sliding_window", 128, kMaxVocabulary, "how far back attention reaches in some layers"),
    structured("layer_types", "which layers have the window"),
    size("num_local_experts", 128, kMaxHeads, "experts of a layer"),
    size("num_experts_per_tok", 4, kMaxHeads, "experts that a token is sent to")
        .alias("experts_per_token"),
    number("swiglu_limit", 7.0, 0, 1e12, "bound of what enters an expert's activation"),
    ignored("initial_context_length", "original_max_position_embeddings of rope_scaling says it"),
    flag("output_router_logits", false, "unbalanced experts are a loss"),
    number("router_aux_loss_coef", 0.9, 0, 1e6, "factor of that loss"),
};

/// The experts of every layer.
static rt::StatusOr<Branch> readMixture(Config &config, LlamaLike &oss) {
  Decoder &decoder = oss.decoder;
  ExpertsShape shape;
  shape.model = decoder.model();
  shape.experts = config.integer("num_local_experts");
  shape.active = config.integer("num_experts_per_tok");
  shape.width = decoder.sizes.intermediateSize;
  shape.std = decoder.std;
  shape.routing = Routing::SoftmaxOfChosen;
  shape.balanced = config.flag("output_router_logits");
  decoder.balanceFactor = config.number("router_aux_loss_coef");
  shape.packing = ExpertPacking::Stacked;
  shape.router = "mlp.router";
  shape.routerBias = shape.bias = shape.inTurn = true;
  shape.down = "mlp.experts.down_proj";
  shape.limit = config.number("swiglu_limit");
  if (oss.mlp.activation != Activation::Silu)
    config.leaveUntrained("hidden_act", "bounded units of another activation", "\"silu\"");
  CLEAVE_RT_RETURN_IF_ERROR(readExperts(config, decoder.sizes, "num_local_experts",
                                        "num_experts_per_tok", shape.width, shape.routing));
  return experts(shape);
}

static rt::StatusOr<FamilyModel> describe(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike oss,
                             readLlamaLike(config, {.kvHeads = 8, .headDim = 64, .theta = 150000}));
  oss.attention.inputBias = oss.attention.outputBias = config.flag("attention_bias");
  oss.attention.sinks = "self_attn.sinks";
  CLEAVE_RT_ASSIGN_OR_RETURN(const Branch sparse, readMixture(config, oss));
  CLEAVE_RT_ASSIGN_OR_RETURN(
      const std::vector<bool> sliding,
      readSliding(config, oss.decoder.sizes.layers, [](int64_t i) { return i % 2 == 0; }));
  LlamaLike windowed = oss;
  windowed.setWindow(config.integer("sliding_window"));
  return windowed.decoder.build({oss.block("full", sparse), windowed.block("sliding", sparse)},
                                [&](int64_t i) { return size_t(sliding[i]); });
}

static std::vector<std::span<const ConfigKey>> tables() { return {sizeKeys(), kKeys, ropeKeys()}; }

const Family gptOssFamily = {"gpt_oss", "GptOssForCausalLM", tables, describe};

} // namespace cleave::frontend

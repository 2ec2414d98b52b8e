//===- GptOss.cpp - gpt-oss ---------------------------------------------------------===//
//
// Llama's layers with biases, a learned sink for each head's scores, a window in every
// other layer, and experts with biases whose weights files hold stacked. Described and
// counted, not trained.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

namespace cleave::frontend {

static constexpr std::string_view kRouter = "for routers, which are not trained yet";

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
    ignored("router_aux_loss_coef", kRouter),
    ignored("output_router_logits", kRouter),
};

static rt::StatusOr<FamilyModel> describe(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike oss,
                             readLlamaLike(config, {.kvHeads = 8, .headDim = 64, .theta = 150000}));
  Decoder &decoder = oss.decoder;
  CLEAVE_RT_RETURN_IF_ERROR(readExperts(config, decoder.sizes, "num_local_experts",
                                        "num_experts_per_tok", decoder.sizes.intermediateSize));
  config.leaveUntrained("model_type", "sinks of scores");
  oss.attention.inputBias = oss.attention.outputBias = config.flag("attention_bias");
  ExpertsShape shape;
  shape.model = decoder.model();
  shape.experts = config.integer("num_local_experts");
  shape.active = config.integer("num_experts_per_tok");
  shape.width = decoder.sizes.intermediateSize;
  shape.std = decoder.std;
  shape.packing = ExpertPacking::Stacked;
  shape.router = "mlp.router";
  shape.routerBias = shape.bias = true;
  shape.down = "mlp.experts.down_proj";
  BlockKind full = oss.block("full", experts(shape));
  full.attention.graph = nullptr; // there is no operator with sinks
  full.attention.parameters.push_back(parameter("self_attn.sinks",
                                                {{oss.attention.kvHead(), oss.attention.group()}},
                                                normalInit(decoder.std)));
  BlockKind sliding = full;
  sliding.name = "sliding";
  CLEAVE_RT_ASSIGN_OR_RETURN(
      const std::vector<bool> windows,
      readSliding(config, decoder.sizes.layers, [](int64_t i) { return i % 2 == 0; }));
  decoder.sizes.others.emplace_back("sliding_window", config.integer("sliding_window"));
  return decoder.build({std::move(full), std::move(sliding)},
                       [&](int64_t i) { return size_t(windows[i]); });
}

static std::vector<std::span<const ConfigKey>> tables() { return {sizeKeys(), kKeys, ropeKeys()}; }

const Family gptOssFamily = {"gpt_oss", "GptOssForCausalLM", tables, describe};

} // namespace cleave::frontend

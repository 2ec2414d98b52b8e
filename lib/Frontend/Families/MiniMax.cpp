//===- MiniMax.cpp - MiniMax M2 -------------------------------------------------------===//
//
// Llama's layers with experts for MLPs, norms over all heads of queries and of keys, a
// part of each head turned. Described and counted, not trained. Further modules that
// predict tokens (use_mtp) are no part of the description.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

namespace cleave::frontend {

static constexpr std::string_view kRouter = "for routers, which are not trained yet";
static constexpr std::string_view kFurther = "modules that predict further tokens are left out";

static constexpr ConfigKey kKeys[] = {
    size("max_position_embeddings", 196608, kMaxVocabulary, "longest sequence"),
    size("num_local_experts", 256, kMaxHeads, "experts of a layer"),
    size("num_experts_per_tok", 8, kMaxHeads, "experts that a token is sent to"),
    derivedSize("rotary_dim", kMaxHeads, "the part of a head that is turned"),
    flag("use_qk_norm", true, "norms on queries and keys"),
    text("qk_norm_type", "per_layer", "over all heads, or over each"),
    flag("use_routing_bias", true, "a correction of scores when experts are chosen"),
    fixed("shared_intermediate_size", KeyType::Integer, int64_t(0), "a shared expert"),
    ignored("scoring_func", kRouter),
    ignored("router_aux_loss_coef", kRouter),
    ignored("router_jitter_noise", kRouter),
    ignored("output_router_logits", kRouter),
    ignored("use_mtp", kFurther),
    ignored("mtp_transformer_layers", kFurther),
    ignored("num_mtp_modules", kFurther),
};

static rt::StatusOr<FamilyModel> describe(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike minimax, readLlamaLike(config, {.kvHeads = 8}));
  Decoder &decoder = minimax.decoder;
  if (config.flag("use_qk_norm"))
    minimax.attention.headNorms =
        config.text("qk_norm_type") == "per_layer" ? HeadNorms::AllHeads : HeadNorms::EachHead;
  ExpertsShape shape;
  shape.model = decoder.model();
  shape.std = decoder.std;
  shape.experts = config.integer("num_local_experts");
  shape.active = config.integer("num_experts_per_tok");
  shape.width = decoder.sizes.intermediateSize;
  shape.router = "block_sparse_moe.gate";
  if (config.flag("use_routing_bias"))
    shape.correction = "block_sparse_moe.e_score_correction_bias";
  shape.gate = "block_sparse_moe.experts.{}.w1";
  shape.up = "block_sparse_moe.experts.{}.w3";
  shape.down = "block_sparse_moe.experts.{}.w2";
  CLEAVE_RT_RETURN_IF_ERROR(
      readExperts(config, decoder.sizes, "num_local_experts", "num_experts_per_tok", shape.width));
  return decoder.build(minimax.block("sparse", experts(shape)));
}

static std::vector<std::span<const ConfigKey>> tables() {
  return {sizeKeys(), llamaLikeKeys(), kKeys, ropeKeys()};
}

const Family miniMaxM2Family = {"minimax_m2", "MiniMaxM2ForCausalLM", tables, describe};

} // namespace cleave::frontend

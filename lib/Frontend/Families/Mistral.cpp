//===- Mistral.cpp - Mistral and Mixtral ---------------------------------------===//
//
// Llama's layers with a window on attention; Mixtral has experts for its MLP.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

namespace cleave::frontend {

static constexpr ConfigKey kMistralKeys[] = {
    size("max_position_embeddings", 131072, kMaxVocabulary, "longest sequence"),
    derivedSize("sliding_window", kMaxVocabulary, "how far back attention reaches"),
};

static constexpr ConfigKey kMixtralKeys[] = {
    size("max_position_embeddings", 131072, kMaxVocabulary, "longest sequence"),
    derivedSize("sliding_window", kMaxVocabulary, "how far back attention reaches"),
    size("num_local_experts", 8, kMaxHeads, "experts of a layer"),
    size("num_experts_per_tok", 2, kMaxHeads, "experts that a token is sent to"),
    flag("output_router_logits", false, "unbalanced experts are a loss"),
    number("router_aux_loss_coef", 0.001, 0, 1e6, "factor of that loss"),
    untrained("router_jitter_noise", KeyType::Number, 0.0, "noise on what routers see"),
};

static rt::StatusOr<FamilyModel> describeMistral(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike mistral, readLlamaLike(config, {.kvHeads = 8}));
  // Null says that there is no window; left out, it is that of the first model.
  if (std::optional<int64_t> window = config.givenInteger("sliding_window"))
    mistral.setWindow(*window);
  else if (!config.isNull("sliding_window"))
    mistral.setWindow(config.derive("sliding_window", 4096, "default of the family"));
  return mistral.build();
}

static rt::StatusOr<FamilyModel> describeMixtral(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike mixtral,
                             readLlamaLike(config, {.kvHeads = 8, .theta = 1e6}));
  ModelSizes &sizes = mixtral.decoder.sizes;
  if (std::optional<int64_t> window = config.givenInteger("sliding_window"))
    mixtral.setWindow(*window);
  ExpertsShape shape;
  shape.routing = Routing::SoftmaxOfChosen;
  CLEAVE_RT_RETURN_IF_ERROR(readExperts(config, sizes, "num_local_experts", "num_experts_per_tok",
                                        sizes.intermediateSize, shape.routing));
  shape.activation = mixtral.mlp.activation;
  shape.balanced = config.flag("output_router_logits");
  mixtral.decoder.balanceFactor = config.number("router_aux_loss_coef");
  shape.model = mixtral.decoder.model();
  shape.experts = config.integer("num_local_experts");
  shape.active = config.integer("num_experts_per_tok");
  shape.width = sizes.intermediateSize;
  shape.std = mixtral.decoder.std;
  shape.router = "block_sparse_moe.gate";
  shape.gate = "block_sparse_moe.experts.{}.w1";
  shape.up = "block_sparse_moe.experts.{}.w3";
  shape.down = "block_sparse_moe.experts.{}.w2";
  return mixtral.decoder.build(mixtral.block("sparse", experts(shape)));
}

static std::vector<std::span<const ConfigKey>> mistralTables() {
  return {sizeKeys(), llamaLikeKeys(), kMistralKeys, ropeKeys()};
}
static std::vector<std::span<const ConfigKey>> mixtralTables() {
  return {sizeKeys(), llamaLikeKeys(), kMixtralKeys, ropeKeys()};
}

const Family mistralFamily = {"mistral", "MistralForCausalLM", mistralTables, describeMistral};
const Family mixtralFamily = {"mixtral", "MixtralForCausalLM", mixtralTables, describeMixtral};

} // namespace cleave::frontend

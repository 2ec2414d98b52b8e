//===- QwenMoe.cpp - Qwen2-MoE (and 1.5), Qwen3-MoE, the text of Qwen3-VL-MoE ---===//
//
// Qwen2's and Qwen3's layers with experts for most MLPs. Layer i (from 0) has experts
// where i + 1 is a multiple of decoder_sparse_step and mlp_only_layers does not name it.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

#include <algorithm>

namespace cleave::frontend {

static constexpr ConfigKey kKeys[] = {
    size("max_position_embeddings", 32768, kMaxVocabulary, "longest sequence"),
    untrained("use_sliding_window", KeyType::Bool, false, "a window beside experts"),
    ignored("sliding_window", "use_sliding_window switches it on"),
    size("decoder_sparse_step", 1, kMaxLayers, "every how many layers experts stand"),
    structured("mlp_only_layers", "layers that have no experts in any case"),
    size("num_experts_per_tok", 8, kMaxHeads, "experts that a token is sent to"),
    ignored("max_window_layers", "use_sliding_window switches the window on"),
    ignored("layer_types", "use_sliding_window switches the window on"),
    flag("norm_topk_prob", false, "the weights of the chosen experts add up to 1"),
    flag("output_router_logits", false, "unbalanced experts are a loss"),
    number("router_aux_loss_coef", 0.001, 0, 1e6, "factor of that loss"),
};
static constexpr ConfigKey kQwen2Keys[] = {
    size("num_experts", 60, kMaxHeads, "experts of a layer"),
    size("moe_intermediate_size", 1408, kMaxWidth, "width of an expert"),
    size("shared_expert_intermediate_size", 5632, kMaxWidth, "width of the shared expert"),
    flag("qkv_bias", true, "biases on q, k and v"),
};
static constexpr ConfigKey kQwen3Keys[] = {
    size("num_experts", 128, kMaxHeads, "experts of a layer"),
    size("moe_intermediate_size", 768, kMaxWidth, "width of an expert"),
    flag("attention_bias", false, "biases on q, k, v and o"),
};

/// Whether each layer has experts.
static rt::StatusOr<std::vector<bool>> readSparse(const Config &config, int64_t layers) {
  const int64_t step = config.integer("decoder_sparse_step");
  std::vector<bool> sparse(layers);
  for (int64_t i = 0; i < layers; ++i)
    sparse[i] = (i + 1) % step == 0;
  const rt::JsonValue *dense = config.given("mlp_only_layers");
  if (!dense)
    return sparse;
  auto refuse = [&](const rt::JsonValue &at) {
    return config
        .errorAt("config.wrong_type", at, "mlp_only_layers",
                 "\"mlp_only_layers\" is no list of layers")
        .withRule("\"mlp_only_layers\" lists numbers of layers, from 0")
        .suggest("[]");
  };
  if (!dense->isArray())
    return refuse(*dense);
  for (const rt::JsonValue &layer : dense->elements()) {
    if (!layer.isInteger() || layer.integer() < 0 || layer.integer() >= layers)
      return refuse(layer);
    sparse[layer.integer()] = false;
  }
  return sparse;
}

/// The model of `qwen`, whose attention is complete.
static rt::StatusOr<FamilyModel> build(Config &config, LlamaLike &qwen, ExpertsShape shape) {
  Decoder &decoder = qwen.decoder;
  shape.model = decoder.model();
  shape.std = decoder.std;
  shape.experts = config.integer("num_experts");
  shape.active = config.integer("num_experts_per_tok");
  shape.width = config.integer("moe_intermediate_size");
  shape.activation = qwen.mlp.activation;
  shape.balanced = shape.packing == ExpertPacking::Separate && config.flag("output_router_logits");
  decoder.balanceFactor = config.number("router_aux_loss_coef");
  if (shape.packing == ExpertPacking::Separate)
    shape.routing =
        config.flag("norm_topk_prob") ? Routing::SoftmaxOfChosen : Routing::SoftmaxOfAll;
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::vector<bool> sparse,
                             readSparse(config, decoder.sizes.layers));
  if (std::ranges::count(sparse, true))
    CLEAVE_RT_RETURN_IF_ERROR(readExperts(config, decoder.sizes, "num_experts",
                                          "num_experts_per_tok", shape.width, shape.routing));
  return decoder.build({qwen.block("dense"), qwen.block("sparse", experts(shape))},
                       [&](int64_t i) { return size_t(sparse[i]); });
}

static rt::StatusOr<FamilyModel> describeQwen2(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike qwen, readLlamaLike(config, {.kvHeads = 16}));
  qwen.attention.inputBias = config.flag("qkv_bias");
  ExpertsShape shape;
  shape.sharedWidth = config.integer("shared_expert_intermediate_size");
  shape.shared = "mlp.shared_expert.";
  shape.sharedGate = "mlp.shared_expert_gate";
  qwen.decoder.sizes.others = {{"shared_expert_intermediate_size", shape.sharedWidth}};
  return build(config, qwen, shape);
}

static rt::StatusOr<FamilyModel> describeQwen3(Config &config, double theta, ExpertsShape shape) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike qwen, readLlamaLike(config, {.kvHeads = 4, .theta = theta}));
  qwen.attention.inputBias = qwen.attention.outputBias = config.flag("attention_bias");
  qwen.attention.headNorms = HeadNorms::EachHead;
  return build(config, qwen, std::move(shape));
}

static rt::StatusOr<FamilyModel> describeQwen3Text(Config &config) {
  return describeQwen3(config, 10000, {});
}

/// The text of the model that also sees keeps the experts of a layer in two tensors.
static rt::StatusOr<FamilyModel> describeQwen3Vl(Config &config) {
  ExpertsShape shape;
  shape.packing = ExpertPacking::Stacked;
  shape.down = "mlp.experts.down_proj";
  return describeQwen3(config, 5e6, shape);
}

static std::vector<std::span<const ConfigKey>> qwen2Tables() {
  return {sizeKeys(), llamaLikeKeys(), kKeys, kQwen2Keys, ropeKeys()};
}
static std::vector<std::span<const ConfigKey>> qwen3Tables() {
  return {sizeKeys(), llamaLikeKeys(), kKeys, kQwen3Keys, ropeKeys()};
}
static std::vector<std::span<const ConfigKey>> qwen3VlTables() {
  return {sizeKeys(), llamaLikeKeys(), kKeys, kQwen3Keys, ropeKeys(), otherMediaKeys()};
}

const Family qwen2MoeFamily = {"qwen2_moe", "Qwen2MoeForCausalLM", qwen2Tables, describeQwen2};
const Family qwen3MoeFamily = {"qwen3_moe", "Qwen3MoeForCausalLM", qwen3Tables, describeQwen3Text};
const Family qwen3VlMoeTextFamily = {"qwen3_vl_moe_text", "Qwen3VLMoeTextModel", qwen3VlTables,
                                     describeQwen3Vl};

} // namespace cleave::frontend

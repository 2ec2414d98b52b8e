//===- DeepSeek.cpp - DeepSeek V2 and V3, Kimi K2 -----------------------------------===//
//
// Latent attention, dense first layers, experts beside shared ones. The correction of
// scores stays as it is. Layers that predict further tokens (num_nextn_predict_layers) lie
// beyond num_hidden_layers and are no part of the description.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

#include <fmt/format.h>

#include <cmath>

namespace cleave::frontend {

static constexpr std::string_view kBalance = "a balance loss of the publisher's own training";
static constexpr std::string_view kLayout = "the planner decides how experts are spread";

static constexpr ConfigKey kKeys[] = {
    requiredSize("hidden_size", kMaxWidth, "width of the residual stream"),
    requiredSize("num_hidden_layers", kMaxLayers, "number of layers"),
    requiredSize("num_attention_heads", kMaxHeads, "number of heads"),
    requiredSize("intermediate_size", kMaxWidth, "width of the MLP in dense layers"),
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    text("hidden_act", "silu", "activation of the MLP"),
    number("rms_norm_eps", 1e-6, 0, 1, "added to the mean square in norms"),
    number("initializer_range", 0.02, 0, 100, "standard deviation of fresh matrices"),
    flag("tie_word_embeddings", false, "the output matrix is the embedding"),
    flag("attention_bias", false, "biases on the narrow projections and on o"),
    derivedSize("q_lora_rank", kMaxWidth, "width of the vector that queries come from"),
    size("kv_lora_rank", 512, kMaxWidth, "width of the vector that keys and values come from"),
    size("qk_nope_head_dim", 128, kMaxHeads, "width of a key's part without positions"),
    size("qk_rope_head_dim", 64, kMaxHeads, "width of a key's part with positions"),
    size("v_head_dim", 128, kMaxHeads, "width of a value"),
    size("moe_layer_freq", 1, kMaxLayers, "every how many layers experts stand"),
    derivedSize("n_shared_experts", kMaxHeads, "experts that every token goes to"),
    dropout("attention_dropout", 0.0, "dropout on attention weights"),
    ignored("num_key_value_heads", "latent attention has no heads of keys"),
    ignored("num_nextn_predict_layers", "layers that predict further tokens are left out"),
    derivedSize("n_group", kMaxHeads, "groups of experts"),
    derivedSize("topk_group", kMaxHeads, "groups that a token's experts come from"),
    ignored("aux_loss_alpha", kBalance),
    ignored("seq_aux", kBalance),
    ignored("ep_size", kLayout),
};
static constexpr ConfigKey kV2Keys[] = {
    size("max_position_embeddings", 2048, kMaxVocabulary, "longest sequence"),
    derivedSize("n_routed_experts", kMaxHeads, "experts of a layer"),
    size("num_experts_per_tok", 6, kMaxHeads, "experts that a token is sent to"),
    size("moe_intermediate_size", 1407, kMaxWidth, "width of an expert"),
    {"first_k_dense_replace", KeyType::Integer, KeyUse::Optional, int64_t(0), 0, kMaxLayers,
     "layers without experts at the start"},
    text("topk_method", "greedy", "how experts are chosen"),
    fixed("scoring_func", KeyType::Text, std::string_view("softmax"), "scores are a softmax"),
    ignored("norm_topk_prob", "the family does not divide weights by their sum"),
    number("routed_scaling_factor", 1.0, 0, 1e6, "factor of the experts' weights"),
};
static constexpr ConfigKey kV3Keys[] = {
    size("max_position_embeddings", 4096, kMaxVocabulary, "longest sequence"),
    derivedSize("n_routed_experts", kMaxHeads, "experts of a layer"),
    size("num_experts_per_tok", 8, kMaxHeads, "experts that a token is sent to"),
    size("moe_intermediate_size", 2048, kMaxWidth, "width of an expert"),
    {"first_k_dense_replace", KeyType::Integer, KeyUse::Optional, int64_t(3), 0, kMaxLayers,
     "layers without experts at the start"},
    text("topk_method", "noaux_tc", "how experts are chosen"),
    fixed("scoring_func", KeyType::Text, std::string_view("sigmoid"), "scores are sigmoids"),
    flag("norm_topk_prob", true, "the weights of the chosen experts are divided by their sum"),
    number("routed_scaling_factor", 2.5, 0, 1e6, "factor of the experts' weights"),
};

/// V2 and V3 (and Kimi K2) differ in their routers, and in what Yarn does to scores.
enum class Version { V2, V3 };

static rt::StatusOr<Branch> readAttention(Config &config, ModelSizes &sizes, const Decoder &d,
                                          Version version) {
  LatentShape shape;
  shape.std = d.std;
  // Whatever rms_norm_eps says.
  shape.norm = {Norm::Kind::Rms, 1e-6};
  shape.queryRank = config.givenInteger("q_lora_rank").value_or(0);
  if (!shape.queryRank && !config.isNull("q_lora_rank"))
    shape.queryRank = config.derive("q_lora_rank", 1536, "default of the family");
  shape.keyValueRank = config.integer("kv_lora_rank");
  shape.plainDim = config.integer("qk_nope_head_dim");
  shape.ropeDim = config.integer("qk_rope_head_dim");
  shape.valueDim = config.integer("v_head_dim");
  shape.bias = config.flag("attention_bias");
  if (shape.ropeDim % 2)
    return config
        .error("config.head_dim_odd", "qk_rope_head_dim",
               fmt::format("{} values of a head can't be rotated in pairs", shape.ropeDim))
        .withGiven(fmt::format("qk_rope_head_dim = {}", shape.ropeDim))
        .withRule("qk_rope_head_dim is even")
        .suggest(fmt::format("\"qk_rope_head_dim\": {}", shape.ropeDim + 1));
  sizes.headDim = shape.plainDim + shape.ropeDim;
  if (shape.queryRank)
    sizes.others.emplace_back("q_lora_rank", shape.queryRank);
  sizes.others.insert(sizes.others.end(), {{"kv_lora_rank", shape.keyValueRank},
                                           {"qk_nope_head_dim", shape.plainDim},
                                           {"qk_rope_head_dim", shape.ropeDim},
                                           {"v_head_dim", shape.valueDim}});
  shape.sizes = sizes;
  CLEAVE_RT_ASSIGN_OR_RETURN(const Rope rope, readRope(config));
  shape.frequencies = ropeFrequencies(rope, shape.ropeDim);
  shape.turnedFactor = ropeScoreFactor(rope);
  shape.scale = usualScale(sizes);
  if (version == Version::V3 && rope.kind != RopeKind::Default && rope.mscaleAllDim > 0 &&
      rope.factor > 1) {
    const double length = 0.1 * rope.mscaleAllDim * std::log(rope.factor) + 1;
    shape.scale *= length * length;
  }
  return latentAttention(shape);
}

/// The groups that experts are chosen from.
static rt::Status readGroups(Config &config, ExpertsShape &shape, Version version) {
  const std::string method = config.text("topk_method");
  const bool v3 = version == Version::V3;
  if (method != (v3 ? "noaux_tc" : "greedy") && (v3 || method != "group_limited_greedy")) {
    config.leaveUntrained("topk_method", "experts chosen in another way",
                          v3 ? "\"noaux_tc\"" : "\"greedy\"");
    return rt::Status::success();
  }
  if (method == "greedy")
    return rt::Status::success();
  shape.groups = config.givenInteger("n_group").value_or(0);
  if (!shape.groups)
    shape.groups = config.derive("n_group", v3 ? 8 : 1, "default of the family");
  shape.keptGroups = config.givenInteger("topk_group").value_or(0);
  if (!shape.keptGroups)
    shape.keptGroups = config.derive("topk_group", v3 ? 4 : 1, "default of the family");
  shape.groupTake = v3 ? 2 : 1;
  const int64_t each = shape.experts / shape.groups;
  if (shape.experts % shape.groups == 0 && shape.keptGroups <= shape.groups &&
      (shape.groups == 1 || each >= shape.groupTake) && shape.active <= each * shape.keptGroups)
    return rt::Status::success();
  return config
      .error("config.out_of_range", "n_group",
             fmt::format("a token can't go to {} of {} experts in {} of {} groups", shape.active,
                         shape.experts, shape.keptGroups, shape.groups))
      .withGiven(fmt::format("n_group = {}, topk_group = {}", shape.groups, shape.keptGroups))
      .withRule(
          fmt::format("n_group divides the experts into groups of at least {}, and topk_group "
                      "of these have the experts of a token",
                      shape.groupTake))
      .suggest("\"n_group\": 1, \"topk_group\": 1");
}

/// The experts of a layer, without any an empty branch.
static rt::StatusOr<Branch> readSparse(Config &config, Decoder &decoder, Activation function,
                                       Version version) {
  const int64_t standard = version == Version::V3 ? 256 : 64;
  if (config.isNull("n_routed_experts"))
    return Branch();
  if (!config.given("n_routed_experts"))
    return config.error("config.missing_key", "n_routed_experts", "\"n_routed_experts\" is missing")
        .withRule("\"n_routed_experts\" is the number of experts, or null")
        .suggest(fmt::format("\"n_routed_experts\": {}", standard));
  ExpertsShape shape;
  shape.model = decoder.model();
  shape.std = decoder.std;
  shape.activation = function;
  shape.experts = *config.givenInteger("n_routed_experts");
  shape.active = config.integer("num_experts_per_tok");
  shape.width = config.integer("moe_intermediate_size");
  shape.routing = Routing::SoftmaxOfAll;
  shape.factor = config.number("routed_scaling_factor");
  if (version == Version::V3) {
    shape.routing = Routing::Sigmoid;
    shape.normalized = config.flag("norm_topk_prob");
    if (config.text("topk_method") == "noaux_tc")
      shape.correction = "mlp.gate.e_score_correction_bias";
  }
  shape.shared = "mlp.shared_experts.";
  const int64_t shared = config.givenInteger("n_shared_experts").value_or(0);
  shape.sharedWidth = shared * shape.width;
  CLEAVE_RT_RETURN_IF_ERROR(readExperts(config, decoder.sizes, "n_routed_experts",
                                        "num_experts_per_tok", shape.width, shape.routing));
  CLEAVE_RT_RETURN_IF_ERROR(readGroups(config, shape, version));
  decoder.sizes.others.emplace_back("n_shared_experts", shared);
  return experts(shape);
}

static rt::StatusOr<FamilyModel> describe(Config &config, Version version) {
  Decoder decoder;
  ModelSizes &sizes = decoder.sizes;
  sizes.hiddenSize = config.integer("hidden_size");
  sizes.layers = config.integer("num_hidden_layers");
  sizes.heads = config.integer("num_attention_heads");
  sizes.intermediateSize = config.integer("intermediate_size");
  sizes.vocabSize = config.integer("vocab_size");
  sizes.maxPositions = config.integer("max_position_embeddings");
  decoder.norm = {Norm::Kind::Rms, config.number("rms_norm_eps")};
  decoder.std = config.number("initializer_range");
  decoder.tied = config.flag("tie_word_embeddings");
  CLEAVE_RT_ASSIGN_OR_RETURN(const Activation function, readActivation(config, "hidden_act"));
  CLEAVE_RT_ASSIGN_OR_RETURN(const Branch attention,
                             readAttention(config, sizes, decoder, version));
  CLEAVE_RT_ASSIGN_OR_RETURN(const Branch sparse, readSparse(config, decoder, function, version));
  const Branch dense = mlp({decoder.model(), sizes.intermediateSize, decoder.std, function});
  const int64_t first = config.integer("first_k_dense_replace"),
                step = config.integer("moe_layer_freq");
  const bool any = !sparse.parameters.empty();
  return decoder.build({{"dense", attention, dense}, {"sparse", attention, sparse}},
                       [&](int64_t i) { return size_t(any && i >= first && i % step == 0); });
}

static rt::StatusOr<FamilyModel> describeV2(Config &config) {
  return describe(config, Version::V2);
}
static rt::StatusOr<FamilyModel> describeV3(Config &config) {
  return describe(config, Version::V3);
}

static std::vector<std::span<const ConfigKey>> v2Tables() { return {kKeys, kV2Keys, ropeKeys()}; }
static std::vector<std::span<const ConfigKey>> v3Tables() { return {kKeys, kV3Keys, ropeKeys()}; }

const Family deepSeekV2Family = {"deepseek_v2", "DeepseekV2ForCausalLM", v2Tables, describeV2};
const Family deepSeekV3Family = {"deepseek_v3", "DeepseekV3ForCausalLM", v3Tables, describeV3};
const Family kimiK2Family = {"kimi_k2", "KimiK2ForCausalLM", v3Tables, describeV3};

} // namespace cleave::frontend

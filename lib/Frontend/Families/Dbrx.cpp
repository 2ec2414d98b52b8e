//===- Dbrx.cpp - DBRX -----------------------------------------------------------------===//
//
// LayerNorm without biases, clipped queries, keys and values in one matrix, experts whose
// rows stand below each other in one matrix. Described and counted, not trained.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"

#include <fmt/format.h>

namespace cleave::frontend {

static constexpr std::string_view kRouter = "for routers, which are not trained yet";
static constexpr std::string_view kPart = "of a part";

static constexpr ConfigKey kKeys[] = {
    requiredSize("d_model", kMaxWidth, "width of the residual stream").alias("hidden_size"),
    requiredSize("n_layers", kMaxLayers, "number of layers").alias("num_hidden_layers"),
    requiredSize("n_heads", kMaxHeads, "number of query heads").alias("num_attention_heads"),
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    size("max_seq_len", 2048, kMaxVocabulary, "longest sequence").alias("max_position_embeddings"),
    structured("attn_config", "attention"),
    structured("ffn_config", "experts"),
    number("initializer_range", 0.02, 0, 100, "standard deviation of fresh matrices"),
    flag("tie_word_embeddings", false, "the output matrix is the embedding"),
    dropout("emb_pdrop", 0.0, "dropout on the embedding"),
    dropout("resid_pdrop", 0.0, "dropout on each branch"),
    ignored("output_router_logits", kRouter),
};
static constexpr ConfigKey kAttentionKeys[] = {
    size("kv_n_heads", 1, kMaxHeads, "number of key and value heads"),
    number("rope_theta", 10000, 1e-6, 1e12, "base of the rotary frequencies"),
    untrained("clip_qkv", KeyType::Any, {}, "clipped queries, keys and values"),
    dropout("attn_pdrop", 0.0, "dropout on attention weights"),
    ignored("model_type", kPart),
};
static constexpr ConfigKey kExpertKeys[] = {
    size("moe_num_experts", 4, kMaxHeads, "experts of a layer"),
    size("moe_top_k", 1, kMaxHeads, "experts that a token is sent to"),
    size("ffn_hidden_size", 3584, kMaxWidth, "width of an expert"),
    structured("ffn_act_fn", "activation of the experts"),
    ignored("moe_jitter_eps", kRouter),
    ignored("moe_loss_weight", kRouter),
    ignored("moe_normalize_expert_weights", kRouter),
    ignored("uniform_expert_assignment", kRouter),
    ignored("hidden_size", kPart),
    ignored("model_type", kPart),
};

static rt::StatusOr<ModelSizes> readDbrxSizes(Config &config, const Config &attention,
                                              const Config &ffn) {
  ModelSizes sizes;
  sizes.hiddenSize = config.integer("d_model");
  sizes.layers = config.integer("n_layers");
  sizes.heads = config.integer("n_heads");
  sizes.kvHeads = attention.integer("kv_n_heads");
  sizes.intermediateSize = ffn.integer("ffn_hidden_size");
  sizes.vocabSize = config.integer("vocab_size");
  sizes.maxPositions = config.integer("max_seq_len");
  if (sizes.hiddenSize % sizes.heads || sizes.heads % sizes.kvHeads)
    return config
        .error("config.heads_indivisible", "n_heads",
               fmt::format("{} heads of a width of {} can't share {} key heads", sizes.heads,
                           sizes.hiddenSize, sizes.kvHeads))
        .withRule("d_model is a multiple of n_heads, and that of attn_config.kv_n_heads")
        .suggest(fmt::format("\"n_heads\": {}", largestDivisor(sizes.hiddenSize, sizes.heads)));
  sizes.headDim = sizes.hiddenSize / sizes.heads;
  return sizes;
}

static rt::StatusOr<FamilyModel> describe(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const Config attention,
                             config.readPart("attn_config", {kAttentionKeys}));
  CLEAVE_RT_ASSIGN_OR_RETURN(Config ffn, config.readPart("ffn_config", {kExpertKeys}));
  LlamaLike dbrx;
  CLEAVE_RT_ASSIGN_OR_RETURN(ModelSizes sizes, readDbrxSizes(config, attention, ffn));
  CLEAVE_RT_RETURN_IF_ERROR(
      readExperts(ffn, sizes, "moe_num_experts", "moe_top_k", sizes.intermediateSize));
  config.leaveUntrained("ffn_config", "layers of experts");
  Decoder &decoder = dbrx.decoder;
  decoder.sizes = sizes;
  decoder.norm = {Norm::Kind::Layer, 1e-5};
  decoder.std = config.number("initializer_range");
  decoder.tied = config.flag("tie_word_embeddings");
  decoder.embedding = "transformer.wte";
  decoder.prefix = "transformer.blocks.{}.";
  decoder.attentionNorm = "norm_attn_norm.norm_1";
  decoder.feedForwardNorm = "norm_attn_norm.norm_2";
  decoder.finalNorm = "transformer.norm_f";
  dbrx.attention.sizes = sizes;
  dbrx.attention.std = decoder.std;
  dbrx.attention.packing = Packing::ByKind;
  dbrx.attention.packed = "norm_attn_norm.attn.Wqkv";
  dbrx.attention.output = "norm_attn_norm.attn.out_proj";
  ExpertsShape shape;
  shape.model = decoder.model();
  shape.experts = ffn.integer("moe_num_experts");
  shape.active = ffn.integer("moe_top_k");
  shape.width = sizes.intermediateSize;
  shape.std = decoder.std;
  shape.packing = ExpertPacking::Rows;
  shape.router = "ffn.router.layer";
  shape.gate = "ffn.experts.mlp.w1";
  shape.up = "ffn.experts.mlp.v1";
  shape.down = "ffn.experts.mlp.w2";
  return decoder.build(dbrx.block("sparse", experts(shape)));
}

static std::vector<std::span<const ConfigKey>> tables() { return {kKeys}; }

const Family dbrxFamily = {"dbrx", "DbrxForCausalLM", tables, describe};

} // namespace cleave::frontend

//===- Alibi.cpp - BLOOM and MPT ------------------------------------------------------===//
//
// Decoders whose positions are slopes on the scores. Described and counted, not trained.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"

#include <fmt/format.h>

namespace cleave::frontend {

static constexpr std::string_view kRounding = "the order of rounding only";
static constexpr std::string_view kImplementation = "how it is computed, not what";

static constexpr ConfigKey kBloomKeys[] = {
    requiredSize("hidden_size", kMaxWidth, "width of the residual stream").alias("n_embed"),
    requiredSize("n_layer", kMaxLayers, "number of layers").alias("num_hidden_layers"),
    requiredSize("n_head", kMaxHeads, "number of heads").alias("num_attention_heads"),
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    number("layer_norm_epsilon", 1e-5, 0, 1, "added to the variance in norms"),
    number("initializer_range", 0.02, 0, 100, "standard deviation of fresh matrices"),
    flag("tie_word_embeddings", true, "the output matrix is the embedding"),
    fixed("apply_residual_connection_post_layernorm", KeyType::Bool, false,
          "the stream is not normalised"),
    dropout("hidden_dropout", 0.0, "dropout on each branch"),
    dropout("attention_dropout", 0.0, "dropout on attention weights"),
    ignored("attention_softmax_in_fp32", kRounding),
    ignored("slow_but_exact", kRounding),
    ignored("masked_softmax_fusion", kImplementation),
    ignored("seq_length", "positions have no end"),
    ignored("unk_token_id", "which token it is does not change the model"),
};

static constexpr ConfigKey kMptKeys[] = {
    requiredSize("d_model", kMaxWidth, "width of the residual stream").alias("hidden_size"),
    requiredSize("n_layers", kMaxLayers, "number of layers").alias("num_hidden_layers"),
    requiredSize("n_heads", kMaxHeads, "number of heads").alias("num_attention_heads"),
    size("expansion_ratio", 4, 1024, "width of the MLP by that of the stream"),
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    size("max_seq_len", 2048, kMaxVocabulary, "longest sequence"),
    number("layer_norm_epsilon", 1e-5, 0, 1, "added to the variance in norms"),
    number("initializer_range", 0.02, 0, 100, "standard deviation of fresh matrices"),
    flag("tie_word_embeddings", true, "the output matrix is the embedding"),
    fixed("no_bias", KeyType::Bool, true, "there are no biases, not even in norms"),
    untrained("logit_scale", KeyType::Any, {}, "scaled logits"),
    structured("attn_config", "attention"),
    dropout("emb_pdrop", 0.0, "dropout on the embedding"),
    dropout("resid_pdrop", 0.0, "dropout on each branch"),
    ignored("learned_pos_emb", "slopes on scores take their place"),
    ignored("embedding_fraction", "how gradients are scaled; 1 in the published models"),
    ignored("norm_type", kRounding),
    ignored("init_config", "initializer_range decides"),
    ignored("init_device", kImplementation),
    ignored("tokenizer_name", "tokens come from a file"),
    ignored("verbose", "what is printed"),
};
static constexpr ConfigKey kMptAttentionKeys[] = {
    fixed("alibi", KeyType::Bool, true, "positions are slopes on scores"),
    size("alibi_bias_max", 8, 1024, "the steepest slope"),
    fixed("attn_type", KeyType::Text, std::string_view("multihead_attention"),
          "each query head has its own key"),
    fixed("qk_ln", KeyType::Bool, false, "norms on queries and keys"),
    dropout("attn_pdrop", 0.0, "dropout on attention weights"),
    untrained("clip_qkv", KeyType::Any, {}, "clipped queries, keys and values"),
    untrained("softmax_scale", KeyType::Any, {}, "another scale of scores"),
    untrained("prefix_lm", KeyType::Bool, false, "attention to what follows"),
    untrained("attn_uses_sequence_id", KeyType::Bool, false, "attention within documents"),
    ignored("attn_impl", kImplementation),
    ignored("model_type", "of a part"),
};

/// Width, depth, heads and vocabulary, by the names of their keys.
static rt::StatusOr<ModelSizes> readPlainSizes(Config &config, std::string_view width,
                                               std::string_view layers, std::string_view heads) {
  ModelSizes sizes;
  sizes.hiddenSize = config.integer(width);
  sizes.layers = config.integer(layers);
  sizes.heads = sizes.kvHeads = config.integer(heads);
  sizes.vocabSize = config.integer("vocab_size");
  if (sizes.hiddenSize % sizes.heads)
    return config
        .error(
            "config.heads_indivisible", heads,
            fmt::format("a width of {} can't be cut into {} heads", sizes.hiddenSize, sizes.heads))
        .withRule(fmt::format("{} is a multiple of {}", width, heads))
        .suggest(fmt::format("\"{}\": {}", heads, largestDivisor(sizes.hiddenSize, sizes.heads)));
  sizes.headDim = sizes.hiddenSize / sizes.heads;
  return sizes;
}

/// A model of plain attention and a plain MLP behind the norms `norm`.
static LlamaLike plain(const Config &config, const ModelSizes &sizes, bool bias) {
  LlamaLike model;
  Decoder &decoder = model.decoder;
  decoder.sizes = sizes;
  decoder.norm = {Norm::Kind::Layer, config.number("layer_norm_epsilon"), bias};
  decoder.std = config.number("initializer_range");
  decoder.tied = config.flag("tie_word_embeddings");
  model.attention.sizes = sizes;
  model.attention.std = decoder.std;
  model.attention.inputBias = model.attention.outputBias = bias;
  model.attention.scale = usualScale(sizes);
  model.mlp = {decoder.model(), sizes.intermediateSize, decoder.std, Activation::GeluTanh, ""};
  model.mlp.bias = bias;
  return model;
}

/// The blocks of `model`, whose attention has no operator.
static FamilyModel build(Config &config, const LlamaLike &model) {
  config.leaveUntrained("model_type", "positions as slopes on scores (ALiBi)");
  BlockKind block = model.block();
  block.attention.graph = nullptr;
  return model.decoder.build(std::move(block));
}

static rt::StatusOr<FamilyModel> describeBloom(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(ModelSizes sizes,
                             readPlainSizes(config, "hidden_size", "n_layer", "n_head"));
  sizes.intermediateSize = 4 * sizes.hiddenSize;
  LlamaLike bloom = plain(config, sizes, /*bias=*/true);
  bloom.decoder.embedding = "transformer.word_embeddings";
  bloom.decoder.norm.declare(bloom.decoder.embedExtras, "transformer.word_embeddings_layernorm",
                             {bloom.decoder.model()});
  bloom.decoder.prefix = "transformer.h.{}.";
  bloom.decoder.finalNorm = "transformer.ln_f";
  bloom.attention.packing = Packing::ByHead;
  bloom.attention.packed = "self_attention.query_key_value";
  bloom.attention.output = "self_attention.dense";
  bloom.mlp.up = "mlp.dense_h_to_4h";
  bloom.mlp.down = "mlp.dense_4h_to_h";
  return build(config, bloom);
}

static rt::StatusOr<FamilyModel> describeMpt(Config &config) {
  CLEAVE_RT_RETURN_IF_ERROR(config.readPart("attn_config", {kMptAttentionKeys}).status());
  CLEAVE_RT_ASSIGN_OR_RETURN(ModelSizes sizes,
                             readPlainSizes(config, "d_model", "n_layers", "n_heads"));
  sizes.maxPositions = config.integer("max_seq_len");
  sizes.intermediateSize = config.integer("expansion_ratio") * sizes.hiddenSize;
  LlamaLike mpt = plain(config, sizes, /*bias=*/false);
  mpt.decoder.embedding = "transformer.wte";
  mpt.decoder.prefix = "transformer.blocks.{}.";
  mpt.decoder.attentionNorm = "norm_1";
  mpt.decoder.feedForwardNorm = "norm_2";
  mpt.decoder.finalNorm = "transformer.norm_f";
  mpt.attention.packing = Packing::ByKind;
  mpt.attention.packed = "attn.Wqkv";
  mpt.attention.output = "attn.out_proj";
  mpt.mlp.up = "ffn.up_proj";
  mpt.mlp.down = "ffn.down_proj";
  return build(config, mpt);
}

static std::vector<std::span<const ConfigKey>> bloomTables() { return {kBloomKeys}; }
static std::vector<std::span<const ConfigKey>> mptTables() { return {kMptKeys}; }

const Family bloomFamily = {"bloom", "BloomForCausalLM", bloomTables, describeBloom};
const Family mptFamily = {"mpt", "MPTForCausalLM", mptTables, describeMpt};

} // namespace cleave::frontend

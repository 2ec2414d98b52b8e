//===- Falcon.cpp - The Falcon family --------------------------------------------===//
//
// Queries, keys and values in one matrix, in one of three orders: a key head for all
// queries behind these (7b), a key head behind each group of queries (40b), or one for
// each query (the others). Attention and MLP stand beside each other, behind one norm or
// a norm each.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

namespace cleave::frontend {

static constexpr ConfigKey kKeys[] = {
    requiredSize("hidden_size", kMaxWidth, "width of the residual stream"),
    requiredSize("num_hidden_layers", kMaxLayers, "number of layers").alias("n_layer"),
    requiredSize("num_attention_heads", kMaxHeads, "number of query heads").alias("n_head"),
    derivedSize("num_kv_heads", kMaxHeads, "number of key and value heads").alias("n_head_kv"),
    derivedSize("ffn_hidden_size", kMaxWidth, "width of the MLP"),
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    size("max_position_embeddings", 2048, kMaxVocabulary, "longest sequence"),
    flag("new_decoder_architecture", false, "groups of queries with a key head each"),
    flag("multi_query", true, "one key head for all queries, in the older architecture"),
    flag("parallel_attn", true, "both branches read the layer's start"),
    derivedSize("num_ln_in_parallel_attn", 2, "norms of a layer in the newer architecture"),
    flag("bias", false, "biases on all matrices"),
    text("activation", "gelu", "activation of the MLP"),
    number("layer_norm_epsilon", 1e-5, 0, 1, "added to the variance in norms"),
    number("initializer_range", 0.02, 0, 100, "standard deviation of fresh matrices"),
    flag("tie_word_embeddings", true, "the output matrix is the embedding"),
    untrained("alibi", KeyType::Bool, false, "positions as slopes on scores"),
    fixed("apply_residual_connection_post_layernorm", KeyType::Bool, false,
          "the stream is not normalised"),
    dropout("hidden_dropout", 0.0, "dropout on each branch"),
    dropout("attention_dropout", 0.0, "dropout on attention weights"),
};

/// Heads and their order in the file.
static rt::StatusOr<AttentionShape> readAttention(Config &config, ModelSizes sizes) {
  AttentionShape attention;
  sizes.heads = sizes.kvHeads = config.integer("num_attention_heads");
  const bool grouped = config.flag("new_decoder_architecture");
  if (grouped)
    sizes.kvHeads = config.givenInteger("num_kv_heads").value_or(sizes.heads);
  else if (config.flag("multi_query"))
    sizes.kvHeads = 1;
  if (sizes.hiddenSize % sizes.heads || sizes.heads % sizes.kvHeads)
    return config
        .error("config.heads_indivisible", "num_attention_heads",
               "the width is no multiple of the heads, or these are none of the key heads")
        .withRule("hidden_size is a multiple of num_attention_heads, and that of num_kv_heads")
        .suggest("the published values");
  sizes.headDim = sizes.hiddenSize / sizes.heads;
  attention.sizes = sizes;
  attention.std = config.number("initializer_range");
  attention.packing = grouped || sizes.kvHeads == sizes.heads ? Packing::ByHead : Packing::ByKind;
  attention.packed = "self_attention.query_key_value";
  attention.output = "self_attention.dense";
  attention.inputBias = attention.outputBias = config.flag("bias");
  attention.scale = usualScale(sizes);
  if (attention.isUneven())
    config.leaveUntrained(grouped ? "new_decoder_architecture" : "multi_query",
                          "one matrix with more heads of queries than of keys", "false");
  CLEAVE_RT_ASSIGN_OR_RETURN(const Rope rope, readRope(config));
  turnHeads(config, attention, rope, sizes.headDim);
  return attention;
}

static void nameNorms(Config &config, Decoder &decoder) {
  const bool grouped = config.flag("new_decoder_architecture");
  decoder.parallel = grouped || config.flag("parallel_attn");
  if (grouped && config.givenInteger("num_ln_in_parallel_attn").value_or(2) == 2) {
    decoder.attentionNorm = "ln_attn";
    decoder.feedForwardNorm = "ln_mlp";
  } else if (decoder.parallel) {
    decoder.feedForwardNorm = "";
  }
}

static rt::StatusOr<FamilyModel> describe(Config &config) {
  LlamaLike falcon;
  ModelSizes sizes;
  sizes.hiddenSize = config.integer("hidden_size");
  sizes.layers = config.integer("num_hidden_layers");
  sizes.vocabSize = config.integer("vocab_size");
  sizes.maxPositions = config.integer("max_position_embeddings");
  sizes.intermediateSize = config.givenInteger("ffn_hidden_size").value_or(0);
  if (!sizes.intermediateSize)
    sizes.intermediateSize =
        config.derive("ffn_hidden_size", 4 * sizes.hiddenSize, "4 · hidden_size");
  CLEAVE_RT_ASSIGN_OR_RETURN(falcon.attention, readAttention(config, sizes));
  CLEAVE_RT_ASSIGN_OR_RETURN(const Activation function, readActivation(config, "activation"));
  Decoder &decoder = falcon.decoder;
  decoder.sizes = falcon.attention.sizes;
  decoder.norm = {Norm::Kind::Layer, config.number("layer_norm_epsilon"), /*bias=*/true};
  decoder.std = config.number("initializer_range");
  decoder.tied = config.flag("tie_word_embeddings");
  decoder.embedding = "transformer.word_embeddings";
  decoder.prefix = "transformer.h.{}.";
  decoder.finalNorm = "transformer.ln_f";
  nameNorms(config, decoder);
  falcon.mlp = {decoder.model(),     sizes.intermediateSize, decoder.std, function, "",
                "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"};
  falcon.mlp.bias = config.flag("bias");
  return falcon.build();
}

static std::vector<std::span<const ConfigKey>> tables() { return {kKeys, ropeKeys()}; }

const Family falconFamily = {"falcon", "FalconForCausalLM", tables, describe};

} // namespace cleave::frontend

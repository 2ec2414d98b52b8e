//===- Opt.cpp - The OPT family ----------------------------------------------------===//
//
// Learned positions, whose table has two rows in front of the first position; LayerNorm
// before branches, or (350m) behind each sum; 350m also has a narrower embedding.
// Described and counted, not trained.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"

#include <fmt/format.h>

namespace cleave::frontend {

static constexpr ConfigKey kKeys[] = {
    requiredSize("hidden_size", kMaxWidth, "width of the residual stream"),
    requiredSize("num_hidden_layers", kMaxLayers, "number of layers"),
    requiredSize("num_attention_heads", kMaxHeads, "number of heads"),
    requiredSize("ffn_dim", kMaxWidth, "width of the MLP"),
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    size("max_position_embeddings", 2048, kMaxVocabulary, "longest sequence"),
    derivedSize("word_embed_proj_dim", kMaxWidth, "width of the embedding"),
    flag("do_layer_norm_before", true, "norms stand before branches"),
    flag("_remove_final_layer_norm", false, "there is no norm behind the last layer"),
    flag("enable_bias", true, "biases on the matrices of layers"),
    fixed("layer_norm_elementwise_affine", KeyType::Bool, true, "norms have weights"),
    text("activation_function", "relu", "activation of the MLP"),
    number("init_std", 0.02, 0, 100, "standard deviation of fresh matrices"),
    flag("tie_word_embeddings", true, "the output matrix is the embedding"),
    dropout("dropout", 0.1, "dropout on each branch"),
    dropout("attention_dropout", 0.0, "dropout on attention weights"),
    dropout("layerdrop", 0.0, "dropout of whole layers"),
    ignored("activation_dropout", "an older key that nothing reads"),
    ignored("prefix", "for inference only"),
};

/// Rows in front of that of position 0.
static constexpr int64_t kRowsBefore = 2;

static rt::StatusOr<ModelSizes> readOptSizes(Config &config) {
  ModelSizes sizes;
  sizes.hiddenSize = config.integer("hidden_size");
  sizes.layers = config.integer("num_hidden_layers");
  sizes.heads = sizes.kvHeads = config.integer("num_attention_heads");
  sizes.intermediateSize = config.integer("ffn_dim");
  sizes.vocabSize = config.integer("vocab_size");
  sizes.maxPositions = config.integer("max_position_embeddings");
  if (sizes.hiddenSize % sizes.heads)
    return config
        .error(
            "config.heads_indivisible", "num_attention_heads",
            fmt::format("a width of {} can't be cut into {} heads", sizes.hiddenSize, sizes.heads))
        .withRule("hidden_size is a multiple of num_attention_heads")
        .suggest(fmt::format("\"num_attention_heads\": {}",
                             largestDivisor(sizes.hiddenSize, sizes.heads)));
  sizes.headDim = sizes.hiddenSize / sizes.heads;
  return sizes;
}

/// What stands around the layers.
static void describeEnds(Config &config, Decoder &decoder) {
  const int64_t width = decoder.sizes.hiddenSize;
  const int64_t embedded = config.givenInteger("word_embed_proj_dim").value_or(0);
  const int64_t narrow =
      embedded ? embedded : config.derive("word_embed_proj_dim", width, "hidden_size");
  decoder.embedding = "model.decoder.embed_tokens";
  decoder.embedExtras = {
      parameter("model.decoder.embed_positions.weight",
                {{{"position", decoder.sizes.maxPositions + kRowsBefore}}, {decoder.model()}},
                normalInit(decoder.std))};
  config.leaveUntrained("max_position_embeddings",
                        "a table of positions with rows in front of the first");
  if (narrow != width) {
    decoder.embeddingWidth = narrow;
    declareLinear(decoder.embedExtras, "model.decoder.project_in", {decoder.model()},
                  {decoder.embedded()}, false, decoder.std);
    declareLinear(decoder.headExtras, "model.decoder.project_out", {decoder.embedded()},
                  {decoder.model()}, false, decoder.std);
    config.leaveUntrained("word_embed_proj_dim", "an embedding narrower than the model",
                          std::to_string(width));
  }
  if (!config.flag("do_layer_norm_before"))
    config.leaveUntrained("do_layer_norm_before", "norms behind the sum of stream and branch",
                          "true");
  const bool normed =
      config.flag("do_layer_norm_before") && !config.flag("_remove_final_layer_norm");
  decoder.finalNorm = normed ? "model.decoder.final_layer_norm" : "";
}

static rt::StatusOr<FamilyModel> describe(Config &config) {
  LlamaLike opt;
  CLEAVE_RT_ASSIGN_OR_RETURN(const ModelSizes sizes, readOptSizes(config));
  CLEAVE_RT_ASSIGN_OR_RETURN(const Activation function,
                             readActivation(config, "activation_function"));
  Decoder &decoder = opt.decoder;
  decoder.sizes = sizes;
  decoder.norm = {Norm::Kind::Layer, 1e-5, /*bias=*/true};
  decoder.std = config.number("init_std");
  decoder.tied = config.flag("tie_word_embeddings");
  decoder.prefix = "model.decoder.layers.{}.";
  decoder.attentionNorm = "self_attn_layer_norm";
  decoder.feedForwardNorm = "final_layer_norm";
  describeEnds(config, decoder);
  opt.attention.sizes = sizes;
  opt.attention.std = decoder.std;
  opt.attention.output = "self_attn.out_proj";
  opt.attention.inputBias = opt.attention.outputBias = config.flag("enable_bias");
  opt.attention.scale = usualScale(sizes);
  opt.mlp = {decoder.model(), sizes.intermediateSize, decoder.std, function, "", "fc1", "fc2"};
  opt.mlp.bias = config.flag("enable_bias");
  return opt.build();
}

static std::vector<std::span<const ConfigKey>> tables() { return {kKeys}; }

const Family optFamily = {"opt", "OPTForCausalLM", tables, describe};

} // namespace cleave::frontend

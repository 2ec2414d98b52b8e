//===- GptNeoX.cpp - GPT-NeoX and Pythia ----------------------------------------===//
//
//   each layer:  x += dense(attention(q, k, v)) + dense_4h_to_h(act(dense_h_to_4h h'))
//                [q k v] a head = query_key_value(h),  h, h' = layer_norms(x)
//
// or one branch behind the other, without use_parallel_residual. A part of each head is
// turned by rope.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

namespace cleave::frontend {

static constexpr std::string_view kOther = "no key of this family's code";

static constexpr ConfigKey kKeys[] = {
    requiredSize("hidden_size", kMaxWidth, "width of the residual stream"),
    requiredSize("num_hidden_layers", kMaxLayers, "number of layers"),
    requiredSize("num_attention_heads", kMaxHeads, "number of heads"),
    requiredSize("intermediate_size", kMaxWidth, "width of the MLP"),
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    size("max_position_embeddings", 2048, kMaxVocabulary, "longest sequence"),
    text("hidden_act", "gelu", "activation of the MLP"),
    number("layer_norm_eps", 1e-5, 0, 1, "added to the variance in norms"),
    number("initializer_range", 0.02, 0, 100, "standard deviation of fresh matrices"),
    flag("use_parallel_residual", true, "both branches read the layer's start"),
    flag("attention_bias", true, "biases in attention"),
    flag("tie_word_embeddings", false, "the output matrix is the embedding"),
    number("rotary_pct", 0.25, 0, 1, "the part of a head that is turned")
        .alias("partial_rotary_factor"),
    ConfigKey{"rope_theta", KeyType::Number, KeyUse::Derived, 10000.0, 1e-6, 1e12,
              "base of the rotary frequencies"}
        .alias("rotary_emb_base"),
    structured("rope_scaling", "rotary scaling"),
    structured("rope_parameters", "rotary base and scaling, newer form"),
    dropout("hidden_dropout", 0.0, "dropout on each branch"),
    dropout("attention_dropout", 0.0, "dropout on attention weights"),
    ignored("classifier_dropout", "for classification heads"),
    ignored("hidden_dropout_prob", kOther),
    ignored("attention_probs_dropout_prob", kOther),
};

static rt::StatusOr<FamilyModel> describe(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const ModelSizes sizes, readSizes(config));
  CLEAVE_RT_ASSIGN_OR_RETURN(const Activation function, readActivation(config, "hidden_act"));
  CLEAVE_RT_ASSIGN_OR_RETURN(const Rope rope, readRope(config));
  CLEAVE_RT_ASSIGN_OR_RETURN(const int64_t turned,
                             readRotaryWidth(config, "rotary_pct", sizes.headDim));
  LlamaLike neox;
  Decoder &decoder = neox.decoder;
  decoder.sizes = sizes;
  decoder.norm = {Norm::Kind::Layer, config.number("layer_norm_eps"), /*bias=*/true};
  decoder.std = config.number("initializer_range");
  decoder.tied = config.flag("tie_word_embeddings");
  decoder.parallel = config.flag("use_parallel_residual");
  decoder.embedding = "gpt_neox.embed_in";
  decoder.prefix = "gpt_neox.layers.{}.";
  decoder.finalNorm = "gpt_neox.final_layer_norm";
  decoder.output = "embed_out";
  AttentionShape &attention = neox.attention;
  attention.sizes = sizes;
  attention.std = decoder.std;
  attention.packing = Packing::ByHead;
  attention.packed = "attention.query_key_value";
  attention.output = "attention.dense";
  attention.inputBias = attention.outputBias = config.flag("attention_bias");
  attention.scale = usualScale(sizes);
  turnHeads(config, attention, rope, turned);
  neox.mlp = {decoder.model(),     sizes.intermediateSize, decoder.std, function, "",
              "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"};
  neox.mlp.bias = true;
  return neox.build();
}

static std::vector<std::span<const ConfigKey>> tables() { return {kKeys}; }

const Family gptNeoXFamily = {"gpt_neox", "GPTNeoXForCausalLM", tables, describe};

} // namespace cleave::frontend

//===- Llama.cpp - The Llama family (1, 2, 3, 3.1, 3.2) ----------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

namespace cleave::frontend {

static constexpr ConfigKey kKeys[] = {
    requiredSize("hidden_size", kMaxWidth, "width of the residual stream"),
    requiredSize("num_hidden_layers", kMaxLayers, "number of layers"),
    requiredSize("num_attention_heads", kMaxHeads, "number of query heads"),
    derivedSize("num_key_value_heads", kMaxHeads, "number of key and value heads"),
    derivedSize("head_dim", kMaxHeads, "width of a head"),
    requiredSize("intermediate_size", kMaxWidth, "width of the MLP"),
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    size("max_position_embeddings", 2048, kMaxVocabulary, "longest sequence"),
    text("hidden_act", "silu", "activation of the MLP"),
    number("rms_norm_eps", 1e-6, 0, 1, "added to the mean square in norms"),
    number("initializer_range", 0.02, 0, 100, "standard deviation of fresh matrices"),
    flag("tie_word_embeddings", false, "the output matrix is the embedding"),
    flag("attention_bias", false, "biases on q, k, v and o"),
    flag("mlp_bias", false, "biases on gate, up and down"),
    dropout("attention_dropout", 0.0, "dropout on attention weights"),
    fixed("partial_rotary_factor", KeyType::Number, 1.0, "the whole head is rotated"),
};

static rt::StatusOr<FamilyModel> describe(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike llama, readLlamaLike(config));
  llama.inputBias = llama.outputBias = config.flag("attention_bias");
  llama.mlpBias = config.flag("mlp_bias");
  return llama.build();
}

static std::vector<std::span<const ConfigKey>> tables() { return {kKeys, ropeKeys()}; }

const Family llamaFamily = {"llama", "LlamaForCausalLM", tables, describe};

} // namespace cleave::frontend

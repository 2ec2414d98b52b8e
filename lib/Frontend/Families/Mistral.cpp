//===- Mistral.cpp - Mistral: Llama's layers with a window on attention -------===//

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
    size("max_position_embeddings", 131072, kMaxVocabulary, "longest sequence"),
    text("hidden_act", "silu", "activation of the MLP"),
    number("rms_norm_eps", 1e-6, 0, 1, "added to the mean square in norms"),
    number("initializer_range", 0.02, 0, 100, "standard deviation of fresh matrices"),
    flag("tie_word_embeddings", false, "the output matrix is the embedding"),
    dropout("attention_dropout", 0.0, "dropout on attention weights"),
    derivedSize("sliding_window", kMaxVocabulary, "how far back attention reaches"),
};

static rt::StatusOr<FamilyModel> describe(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike mistral, readLlamaLike(config));
  FamilyModel model = mistral.build();
  // Null says that there is no window; left out, it is that of the first model.
  model.window = config.givenInteger("sliding_window");
  if (!model.window && !config.isNull("sliding_window"))
    model.window = config.derive("sliding_window", 4096, "default of the family");
  return model;
}

static std::vector<std::span<const ConfigKey>> tables() { return {kKeys, ropeKeys()}; }

const Family mistralFamily = {"mistral", "MistralForCausalLM", tables, describe};

} // namespace cleave::frontend

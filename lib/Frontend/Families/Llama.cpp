//===- Llama.cpp - The Llama family (1, 2, 3, 3.1, 3.2) ----------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

namespace cleave::frontend {

static constexpr ConfigKey kKeys[] = {
    size("max_position_embeddings", 2048, kMaxVocabulary, "longest sequence"),
    flag("attention_bias", false, "biases on q, k, v and o"),
    flag("mlp_bias", false, "biases on gate, up and down"),
    fixed("partial_rotary_factor", KeyType::Number, 1.0, "the whole head is rotated"),
};

static rt::StatusOr<FamilyModel> describe(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike llama, readLlamaLike(config));
  llama.attention.inputBias = llama.attention.outputBias = config.flag("attention_bias");
  llama.mlp.bias = config.flag("mlp_bias");
  return llama.build();
}

static std::vector<std::span<const ConfigKey>> tables() {
  return {sizeKeys(), llamaLikeKeys(), kKeys, ropeKeys()};
}

const Family llamaFamily = {"llama", "LlamaForCausalLM", tables, describe};

} // namespace cleave::frontend

//===- Mistral.cpp - Mistral: Llama's layers with a window on attention -------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

namespace cleave::frontend {

static constexpr ConfigKey kKeys[] = {
    size("max_position_embeddings", 131072, kMaxVocabulary, "longest sequence"),
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

static std::vector<std::span<const ConfigKey>> tables() {
  return {llamaLikeKeys(), kKeys, ropeKeys()};
}

const Family mistralFamily = {"mistral", "MistralForCausalLM", tables, describe};

} // namespace cleave::frontend

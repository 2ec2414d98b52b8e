//===- Olmo2.cpp - OLMo 2: norms behind the branches ----------------------------===//
//
//   each layer:  x += rms_norm(o(attention(rope(rms_norm(q x)), rope(rms_norm(k x)), v x)))
//                x += rms_norm(down(act(gate x) · up x))
//
// The norms of queries and keys are over all heads together.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

namespace cleave::frontend {

static constexpr ConfigKey kKeys[] = {
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    text("hidden_act", "silu", "activation of the MLP"),
    number("rms_norm_eps", 1e-5, 0, 1, "added to the mean square in norms"),
    flag("tie_word_embeddings", false, "the output matrix is the embedding"),
    size("max_position_embeddings", 2048, kMaxVocabulary, "longest sequence"),
    flag("attention_bias", false, "biases on q, k, v and o"),
};

static rt::StatusOr<FamilyModel> describe(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike olmo, readLlamaLike(config));
  olmo.attention.inputBias = olmo.attention.outputBias = config.flag("attention_bias");
  olmo.attention.headNorms = HeadNorms::AllHeads;
  olmo.decoder.attentionNorm = "";
  olmo.decoder.attentionPostNorm = "post_attention_layernorm";
  olmo.decoder.feedForwardNorm = "";
  olmo.decoder.feedForwardPostNorm = "post_feedforward_layernorm";
  return olmo.build();
}

static std::vector<std::span<const ConfigKey>> tables() { return {sizeKeys(), kKeys, ropeKeys()}; }

const Family olmo2Family = {"olmo2", "Olmo2ForCausalLM", tables, describe};

} // namespace cleave::frontend

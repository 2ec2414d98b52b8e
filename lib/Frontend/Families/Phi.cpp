//===- Phi.cpp - Phi (1, 1.5, 2) and Phi-3 --------------------------------------===//
//
// Phi: LayerNorm, and attention and MLP beside each other behind one norm; biases
// everywhere, also on the output matrix; a part of each head is turned. Phi-3: Llama's
// layers, whose files hold q, k and v in one matrix and gate and up in another.
//
//===----------------------------------------------------------------------===//

#include "lib/Frontend/Families/Families.h"
#include "lib/Frontend/Families/LlamaLike.h"
#include "lib/Frontend/Rope.h"

namespace cleave::frontend {

static constexpr ConfigKey kPhiKeys[] = {
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    text("hidden_act", "gelu_new", "activation of the MLP"),
    number("layer_norm_eps", 1e-5, 0, 1, "added to the variance in norms"),
    flag("tie_word_embeddings", false, "the output matrix is the embedding"),
    size("max_position_embeddings", 2048, kMaxVocabulary, "longest sequence"),
    number("partial_rotary_factor", 0.5, 0, 1, "the part of a head that is turned"),
    fixed("qk_layernorm", KeyType::Bool, false, "norms on queries and keys"),
    dropout("resid_pdrop", 0.0, "dropout on each branch"),
    dropout("embd_pdrop", 0.0, "dropout on the embedding"),
};
static constexpr ConfigKey kPhi3Keys[] = {
    requiredSize("vocab_size", kMaxVocabulary, "number of tokens"),
    text("hidden_act", "silu", "activation of the MLP"),
    number("rms_norm_eps", 1e-5, 0, 1, "added to the mean square in norms"),
    flag("tie_word_embeddings", false, "the output matrix is the embedding"),
    size("max_position_embeddings", 4096, kMaxVocabulary, "longest sequence"),
    number("partial_rotary_factor", 1.0, 0, 1, "the part of a head that is turned"),
    derivedSize("sliding_window", kMaxVocabulary, "how far back attention reaches"),
    fixed("attention_bias", KeyType::Bool, false, "the family has no biases"),
    dropout("resid_pdrop", 0.0, "dropout on each branch"),
    dropout("embd_pdrop", 0.0, "dropout on the embedding"),
    ignored("original_max_position_embeddings", "of rope scalings that are not trained yet"),
};

/// Turns the first part of each head alone.
static rt::Status turnPart(Config &config, LlamaLike &phi) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const int64_t width, readRotaryWidth(config, "partial_rotary_factor",
                                                                  phi.attention.sizes.headDim));
  CLEAVE_RT_ASSIGN_OR_RETURN(const Rope rope, readRope(config));
  phi.attention.scale = usualScale(phi.attention.sizes);
  turnHeads(config, phi.attention, rope, width);
  return rt::Status::success();
}

static rt::StatusOr<FamilyModel> describePhi(Config &config) {
  LlamaLike phi;
  CLEAVE_RT_ASSIGN_OR_RETURN(const ModelSizes sizes, readSizes(config));
  CLEAVE_RT_ASSIGN_OR_RETURN(const Activation function, readActivation(config, "hidden_act"));
  const double std = config.number("initializer_range");
  const Norm norm{Norm::Kind::Layer, config.number("layer_norm_eps"), /*bias=*/true};
  Decoder &decoder = phi.decoder;
  decoder.sizes = sizes;
  decoder.norm = norm;
  decoder.std = std;
  decoder.tied = config.flag("tie_word_embeddings");
  decoder.parallel = true;
  decoder.feedForwardNorm = "";
  decoder.finalNorm = "model.final_layernorm";
  decoder.outputBias = true;
  phi.attention.sizes = sizes;
  phi.attention.std = std;
  phi.attention.output = "self_attn.dense";
  phi.attention.inputBias = phi.attention.outputBias = true;
  CLEAVE_RT_RETURN_IF_ERROR(turnPart(config, phi));
  phi.mlp = {decoder.model(), sizes.intermediateSize, std, function, "", "mlp.fc1", "mlp.fc2"};
  phi.mlp.bias = true;
  return phi.build();
}

static rt::StatusOr<FamilyModel> describePhi3(Config &config) {
  CLEAVE_RT_ASSIGN_OR_RETURN(LlamaLike phi, readLlamaLike(config));
  CLEAVE_RT_RETURN_IF_ERROR(turnPart(config, phi));
  phi.attention.packing = Packing::ByKind;
  phi.mlp.packed = "mlp.gate_up_proj";
  if (phi.attention.isUneven())
    config.leaveUntrained("num_key_value_heads",
                          "one matrix with more heads of queries than of keys");
  if (std::optional<int64_t> window = config.givenInteger("sliding_window"))
    phi.setWindow(*window);
  return phi.build();
}

static std::vector<std::span<const ConfigKey>> phiTables() {
  return {sizeKeys(), kPhiKeys, ropeKeys()};
}
static std::vector<std::span<const ConfigKey>> phi3Tables() {
  return {sizeKeys(), kPhi3Keys, ropeKeys()};
}

const Family phiFamily = {"phi", "PhiForCausalLM", phiTables, describePhi};
const Family phi3Family = {"phi3", "Phi3ForCausalLM", phi3Tables, describePhi3};

} // namespace cleave::frontend

//===- LlamaLike.h - Blocks of RMS norm, rope and a gated MLP -----------------===//
//
//   x = tokens' embeddings
//   each layer:  x += o(attention(rope(q h), rope(k h), v h))   h = rms_norm(x)
//                x += down(act(gate h) · up h)                  h = rms_norm(x)
//   logits = output · rms_norm(x)
//
// What Llama, Mistral, Qwen, Gemma, OLMo 2 and others share; each says in its own file
// which keys it has and what it does otherwise.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "lib/Frontend/Families/Attention.h"
#include "lib/Frontend/Families/FeedForward.h"

namespace cleave::frontend {

/// A config of such a family, understood: the pieces of which `decoder.build` makes a
/// model.
struct LlamaLike {
  Decoder decoder;
  AttentionShape attention;
  MlpShape mlp;

  /// The usual block, of the pieces as they are.
  BlockKind block(std::string name = "block") const;
  /// The same with another second branch.
  BlockKind block(std::string name, Branch feedForward) const;
  /// The model with usual blocks alone.
  FamilyModel build() const { return decoder.build(block()); }
  /// The model with blocks of two kinds: layer i is one of `windowed` where `sliding[i]`. Around
  /// the blocks both are the same.
  FamilyModel build(const LlamaLike &windowed, const std::vector<bool> &sliding) const;

  /// Gives all layers a window.
  void setWindow(int64_t window);
};

/// What holds where a file leaves keys out, as the family's class in transformers has it.
struct Defaults {
  /// Key and value heads; 0: as many as query heads.
  int64_t kvHeads = 0;
  /// Width of a head; 0: hidden_size / num_attention_heads.
  int64_t headDim = 0;
  /// Base of the rotary frequencies.
  double theta = 10000;
  /// The key of the activation.
  std::string_view activation = "hidden_act";
};

/// The rows of sizes that nearly all families share.
std::span<const ConfigKey> sizeKeys();

/// The rows that Llama's relatives share beyond those. A family adds
/// max_position_embeddings, whose default differs, and the keys of rope.
std::span<const ConfigKey> llamaLikeKeys();

/// Reads sizeKeys(), vocab_size and max_position_embeddings, and checks that heads can be
/// shared and turned in pairs.
rt::StatusOr<ModelSizes> readSizes(Config &config, const Defaults &defaults = {});

/// Reads sizeKeys() and llamaLikeKeys(), or rows of the same names.
rt::StatusOr<LlamaLike> readLlamaLike(Config &config, const Defaults &defaults = {});

/// Which layers attend within a window: `layer_types` where it is given, else the layers
/// that `otherwise` says. Errors: config.wrong_type (no list of that length of known
/// types).
rt::StatusOr<std::vector<bool>> readSliding(Config &config, int64_t layers,
                                            const std::function<bool(int64_t)> &otherwise);

} // namespace cleave::frontend

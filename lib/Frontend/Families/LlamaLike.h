//===- LlamaLike.h - Blocks of RMS norm, rope and a gated MLP -----------------===//
//
//   x = tokens' embeddings
//   each layer:  x += o(attention(rope(q h), rope(k h), v h))   h = rms_norm(x)
//                x += down(act(gate h) · up h)                  h = rms_norm(x)
//   logits = output · rms_norm(x)
//
// What Llama, Mistral, Qwen2 and Qwen3 share; each says in its own file which keys
// it has and what it adds. Query head i uses key and value head i / (heads /
// kv_heads); heads are therefore written as (kv_head, group), which is also their
// order in files.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "lib/Frontend/Family.h"

namespace cleave::frontend {

/// A config of such a family, understood.
struct LlamaLike {
  ModelSizes sizes;
  std::vector<double> frequencies;
  Activation activation = Activation::Silu;
  double eps = 0;
  double std = 0;
  bool tied = false;
  /// Biases on q, k and v; on the attention's output; in the MLP.
  bool inputBias = false;
  bool outputBias = false;
  bool mlpBias = false;
  /// RMS norms over each head's width on queries and keys, before rope.
  bool headNorms = false;

  /// The whole model.
  FamilyModel build() const;

private:
  NamedDim model() const { return {"model", sizes.hiddenSize}; }
  NamedDim vocab() const { return {"vocab", sizes.vocabSize}; }
  NamedDim ffn() const { return {"ffn", sizes.intermediateSize}; }
  NamedDim kvHead() const { return {"kv_head", sizes.kvHeads}; }
  NamedDim group() const { return {"group", sizes.heads / sizes.kvHeads}; }
  NamedDim headDim() const { return {"head_dim", sizes.headDim}; }
  const char *outputMatrix() const { return tied ? "model.embed_tokens" : "lm_head"; }

  LayerKind embed() const;
  LayerKind block() const;
  LayerKind head() const;
};

/// The rows that these families share. A family adds max_position_embeddings, whose
/// default differs, and the keys of rope.
std::span<const ConfigKey> llamaLikeKeys();

/// Reads those.
rt::StatusOr<LlamaLike> readLlamaLike(Config &config);

} // namespace cleave::frontend

//===- Decoder.h - What the layers of decoders have in common -----------------===//
//
//   x = tokens' embeddings (times a factor, plus positions)
//   each layer:  x += attention(norm(x)),  x += mlp(norm(x))           norms before
//                x += norm(attention(x)),  x += norm(mlp(x))           norms after
//                x += norm(attention(norm(x))), …                      both
//                x += attention(norm(x)) + mlp(norm(x))                parallel
//   logits = output · norm(x)
//
// A family is written as data: names of its tensors, how it normalises, and for each
// kind of block its two branches, which Attention.h and FeedForward.h make. A branch
// without a graph is described and counted; a kind that has one has no graph either.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "lib/Frontend/Family.h"

namespace cleave::frontend {

/// A normalisation as a family has it everywhere.
struct Norm {
  enum class Kind { Rms, Layer };
  Kind kind = Kind::Rms;
  double eps = 0;
  /// LayerNorm's; RMS norms have none.
  bool bias = false;
  /// Files hold the weight's distance from 1.
  bool aroundOne = false;

  /// Appends `<stem>.weight` (and `<stem>.bias`) over `dims`.
  void declare(std::vector<Parameter> &parameters, const std::string &stem,
               const std::vector<NamedDim> &dims) const;
  mlir::Value apply(LayerGraph &g, const std::string &path, mlir::Value x,
                    const std::string &stem) const;
};

/// Half of a block.
struct Branch {
  std::vector<Parameter> parameters;
  /// From the normalised stream to what is added to the stream. Absent: described only.
  std::function<mlir::Value(LayerGraph &, mlir::Value)> graph;
  /// Experts that it counts (`LayerGraph::count`), and how many a token goes to.
  int64_t balanced = 0, active = 0;
};

/// Appends `<stem>.weight`, a matrix from `in` to `out`, and `<stem>.bias`.
void declareLinear(std::vector<Parameter> &parameters, const std::string &stem,
                   std::vector<NamedDim> out, std::vector<NamedDim> in, bool bias, double std);

/// A kind of block.
struct BlockKind {
  std::string name = "block";
  Branch attention;
  Branch feedForward;
};

/// A family's decoder. Empty stems: no such norm.
struct Decoder {
  ModelSizes sizes;
  Norm norm;
  double std = 0;
  bool tied = false;

  std::string embedding = "model.embed_tokens";
  double embeddingFactor = 1;
  /// Width of the embedding where it is not the model's; 0: it is.
  int64_t embeddingWidth = 0;
  /// Before a block's own names; braces stand for its number.
  std::string prefix = "model.layers.{}.";
  std::string attentionNorm = "input_layernorm";
  std::string attentionPostNorm = "";
  std::string feedForwardNorm = "post_attention_layernorm";
  std::string feedForwardPostNorm = "";
  /// Both branches read the stream of the layer's start; without a feedForwardNorm
  /// they share attentionNorm.
  bool parallel = false;
  std::string finalNorm = "model.norm";
  std::string output = "lm_head";
  bool outputBias = false;
  /// Bound of the logits; 0: none.
  double logitCap = 0;
  /// Of the loss of unbalanced experts, where blocks count theirs.
  double balanceFactor = 0;
  /// Further parameters of embedding and head, for decoders without a graph there.
  std::vector<Parameter> embedExtras = {};
  std::vector<Parameter> headExtras = {};

  NamedDim model() const { return {"model", sizes.hiddenSize}; }
  NamedDim vocab() const { return {"vocab", sizes.vocabSize}; }
  NamedDim embedded() const {
    return embeddingWidth ? NamedDim{"embedding", embeddingWidth} : model();
  }

  /// The whole model: layer i is of kind `kindOf(i)`.
  FamilyModel build(const std::vector<BlockKind> &kinds,
                    const std::function<size_t(int64_t)> &kindOf) const;
  /// The same with one kind.
  FamilyModel build(BlockKind kind) const;

private:
  LayerKind embed() const;
  LayerKind block(const BlockKind &kind) const;
  LayerKind head() const;
  LayerKind balance(int64_t experts, int64_t active) const;
};

} // namespace cleave::frontend

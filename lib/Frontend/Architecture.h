//===- Architecture.h - What a family's file produces ------------------------===//
//
// The common form of all families: kinds of layers, each with its parameters
// and a function that writes its graph, and the order in which they are called.
// The parameters of a kind are listed once; counting, naming and the arguments
// of the graph all come from that list. Weights' values and config keys have no
// place here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Frontend/Model.h"

#include <functional>

namespace cleave::frontend {

class LayerGraph;

/// Where a kind stands in the model, which fixes its signature:
/// embed (tokens) → (residual, pending); block (residual, pending) → the same;
/// head (residual, pending, targets, scale) → loss; balance (loads of all
/// micro-batches, scores) → a further term of what is minimised. All also take parameters, and
/// embeds and blocks the tokens' positions if they ask for them. A block with experts that are to
/// be balanced takes loads and scores [expert] behind the stream, and returns them with its own
/// added.
enum class LayerRole { Embed, Block, Head, Balance };

struct LayerKind {
  std::string name;
  LayerRole role = LayerRole::Block;
  bool usesPositions = false;
  /// Experts whose loads and scores are added up; 0: none are.
  int64_t balanced = 0;
  /// Names are those inside the layer; a call's prefix completes them.
  std::vector<Parameter> parameters = {};
  /// Absent: the kind is described by its parameters alone and can't be trained.
  std::function<void(LayerGraph &)> graph = {};
};

/// One use of a kind.
struct LayerCall {
  /// Index into Architecture::kinds.
  size_t kind = 0;
  /// Put before the kind's parameter names: "model.layers.{}.", with the layer's
  /// number for the braces.
  std::string prefix;
  /// Number of the block; -1 for embed and head.
  int64_t layer = -1;

  /// The full name of a parameter of the kind.
  std::string nameOf(const Parameter &local) const;
};

/// Calls that follow each other and differ in the layer's number alone.
struct LayerRun {
  LayerCall first;
  int64_t count = 1;
  int64_t step = 1;

  /// The symbol of a parameter of the kind, "model.layers.{0..31}.norm.weight"
  /// where it stands for several tensors.
  std::string symbolOf(const Parameter &local) const;
};

struct Architecture {
  std::vector<LayerKind> kinds;
  std::vector<LayerCall> calls;

  /// Appends a kind and returns its index.
  size_t addKind(LayerKind kind);
  /// Calls `kind` once, without a prefix (embed, head).
  void call(size_t kind);
  /// Calls `kind` as block number `layer`, its parameters under `prefix`, in
  /// which `{}` stands for the number.
  void callBlock(size_t kind, std::string prefix, int64_t layer);

  /// All calls in order, as few runs as there can be.
  std::vector<LayerRun> runs() const;
};

/// How a parameter starts.
struct Init {
  double mean = 0;
  double std = 0;
};
inline Init normalInit(double std) { return {0, std}; }
inline Init constantInit(double value) { return {value, 0}; }

/// A parameter whose file shape is its logical shape with neighbouring
/// dimensions merged: `groups` lists, per file dimension, the logical ones.
/// `{{kvHead, group, headDim}, {model}}` is a matrix of two dimensions in the
/// file and of four in the graph.
Parameter parameter(std::string name, std::vector<std::vector<NamedDim>> groups, Init init);

/// The weights of all `experts`, of which a token is sent to `active`. With `{}` in the
/// name files hold a tensor of shape `groups` for each expert; else one for all, whose
/// first dimension counts experts and then what the first group holds: `{{}, {model},
/// {ffn}}` is [experts, model, ffn], `{{ffn}, {model}}` is [experts · ffn, model].
Parameter expertParameter(std::string name, NamedDim experts, int64_t active,
                          std::vector<std::vector<NamedDim>> groups, Init init);

/// The output matrix under its own name, or, where it is tied, the embedding named
/// `embedding`, which files may also hold under the other.
Parameter outputParameter(bool tied, std::string embedding, NamedDim vocab, NamedDim model,
                          Init init, const std::string &own = "lm_head.weight");

/// Every parameter of the model once, in order of first use; uses add aliases. An error if the
/// number of elements leaves 64 bits.
rt::StatusOr<std::vector<Parameter>> collectParameters(const Architecture &architecture);

/// The blocks by kind.
std::vector<LayerSummary> summarizeLayers(const Architecture &architecture);

} // namespace cleave::frontend

//===- Attention.h - Branches that attend --------------------------------------===//
//
// Softmax attention with grouped queries: query head i uses key and value head
// i / (heads / kv_heads). Heads are therefore written as (kv_head, group), which is
// also their order in files.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "lib/Frontend/Families/Decoder.h"
#include "lib/Frontend/Rope.h"

namespace cleave::frontend {

/// How queries, keys and values lie in files.
enum class Packing {
  /// A matrix each.
  Separate,
  /// One matrix: all heads of queries, then of keys, then of values.
  ByKind,
  /// One matrix: for each key head its queries, its key and its value.
  ByHead,
};

/// RMS norms on queries and keys before rope: over each head, or over all heads together.
enum class HeadNorms { None, EachHead, AllHeads };

struct AttentionShape {
  ModelSizes sizes;
  double std = 0;
  Packing packing = Packing::Separate;
  std::string query = "self_attn.q_proj";
  std::string key = "self_attn.k_proj";
  std::string value = "self_attn.v_proj";
  /// The one matrix of packings that have one.
  std::string packed = "self_attn.qkv_proj";
  std::string output = "self_attn.o_proj";
  bool inputBias = false;
  bool outputBias = false;
  HeadNorms headNorms = HeadNorms::None;
  Norm norm = {};
  std::string queryNorm = "self_attn.q_norm";
  std::string keyNorm = "self_attn.k_norm";
  /// Radians per position and pair; fewer pairs than half a head: its first values
  /// are turned. Empty: no rope.
  std::vector<double> frequencies = {};
  /// Of the scores.
  double scale = 1;
  /// How many positions one sees, itself included; absent: all up to itself.
  std::optional<int64_t> window = {};
  /// Bound of the scores; 0: none.
  double cap = 0;
  /// A learned score a head, whose value is zero; empty: none.
  std::string sinks = "";

  NamedDim model() const { return {"model", sizes.hiddenSize}; }
  NamedDim kvHead() const { return {"kv_head", sizes.kvHeads}; }
  NamedDim group() const { return {"group", sizes.heads / sizes.kvHeads}; }
  NamedDim headDim() const { return {"head_dim", sizes.headDim}; }
  /// One matrix whose queries can't be told apart by a dimension: counted, no graph.
  bool isUneven() const { return packing != Packing::Separate && sizes.heads != sizes.kvHeads; }
};

/// 1/√(width of a head).
double usualScale(const ModelSizes &sizes);

/// Gives `shape` the frequencies of `rope` over the first `width` values of a head, and its
/// scores what rope multiplies them by; that leaves the model untrained where a part of a
/// head is turned alone.
void turnHeads(Config &config, AttentionShape &shape, const Rope &rope, int64_t width);

Branch attention(AttentionShape shape);

/// Attention whose keys and values come from a narrow vector a token (MLA). A part of each
/// query and key is turned by position, of keys one part for all heads.
struct LatentShape {
  ModelSizes sizes;
  double std = 0;
  /// 0: queries come from one matrix.
  int64_t queryRank = 0;
  int64_t keyValueRank = 0;
  /// Widths of a head: of keys without and with rope, and of values.
  int64_t plainDim = 0;
  int64_t ropeDim = 0;
  int64_t valueDim = 0;
  bool bias = false;
  Norm norm = {};
  /// Neighbours are the pairs that are turned; else values half a part away.
  bool interleaved = true;
  /// Of the turned parts, and what these are multiplied by together.
  std::vector<double> frequencies = {};
  double turnedFactor = 1;
  /// Of the scores.
  double scale = 1;
};

Branch latentAttention(const LatentShape &shape);

} // namespace cleave::frontend

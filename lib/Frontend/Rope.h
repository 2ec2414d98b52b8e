//===- Rope.h - Rotary frequencies from a config -----------------------------===//
//
// The three spellings of rope scaling (`rope_scaling` with `type` or with
// `rope_type`, and `rope_parameters`, which holds rope_theta as well) in one
// normal form, and the frequencies that follow from it, in float64. What is
// computed here is all that later phases know of rope scaling.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "lib/Frontend/Config.h"

namespace cleave::frontend {

enum class RopeKind { Default, Linear, Llama3 };

/// The normal form. Fields beyond `theta` count only for kinds that have them.
struct Rope {
  double theta = 10000.0;
  RopeKind kind = RopeKind::Default;
  double factor = 1;
  double lowFrequencyFactor = 1;
  double highFrequencyFactor = 4;
  double originalMaxPositions = 0;

  bool operator==(const Rope &) const = default;
};

/// The rows that a family with rope adds to its table: rope_theta,
/// rope_scaling, rope_parameters.
std::span<const ConfigKey> ropeKeys();

/// Reads the normal form. Errors: config.rope_unknown (no such kind),
/// rope_unsupported (a kind not built yet), conflict (spellings disagree), and
/// the usual ones for the fields.
rt::StatusOr<Rope> readRope(Config &config);

/// Radians per position for each of the headDim / 2 pairs.
std::vector<double> ropeFrequencies(const Rope &rope, int64_t headDim);

} // namespace cleave::frontend

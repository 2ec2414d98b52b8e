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

/// Other: a kind that is known and not built.
enum class RopeKind { Default, Linear, Llama3, Yarn, Other };

/// The normal form. Fields beyond `theta` count only for kinds that have them.
struct Rope {
  double theta = 10000.0;
  RopeKind kind = RopeKind::Default;
  double factor = 1;
  double lowFrequencyFactor = 1;
  double highFrequencyFactor = 4;
  double originalMaxPositions = 0;
  // Of Yarn. 0 where the file has none.
  double betaFast = 32;
  double betaSlow = 1;
  double mscale = 0;
  double mscaleAllDim = 0;
  double attentionFactor = 0;
  bool truncate = true;

  bool operator==(const Rope &) const = default;
};

/// The rows that a family with rope adds to its table: rope_theta,
/// rope_scaling, rope_parameters.
std::span<const ConfigKey> ropeKeys();

/// Reads the normal form; `theta` is what holds where the file has none. Errors:
/// config.rope_unknown (no such kind), conflict (spellings disagree), and the usual ones
/// for the fields. A kind that is not built yet leaves the model untrained with
/// config.rope_unsupported.
rt::StatusOr<Rope> readRope(Config &config, double theta = 10000.0);

/// Radians per position for each of the `width` / 2 pairs, of a head or of the part of it
/// that is turned.
std::vector<double> ropeFrequencies(const Rope &rope, int64_t width);

/// What scores are multiplied by beyond the usual scale, where whole heads are turned: Yarn
/// lengthens queries and keys.
double ropeScoreFactor(const Rope &rope);

/// The width of the part of a head that is turned, where `key` says which share that is.
/// `config.out_of_range` if that is no even number from 2 to `headDim`; a width that does
/// not divide `headDim` leaves the model untrained.
rt::StatusOr<int64_t> readRotaryWidth(Config &config, std::string_view key, int64_t headDim);

} // namespace cleave::frontend

//===- Kernels.h - The time of one kernel ----------------------------------===//
//
// Closed forms of a device's curves. Sizes are those of one rank, in elements.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/Hardware.h"
#include "cleave/CostModel/HostProfile.h"
#include <optional>

namespace cleave::cost {

/// A product of m × k by k × n.
struct ProductSize {
  double m = 1, n = 1, k = 1;
  Width width = 16;
  /// Moved for each element of the result: 8 where it is added to an fp32 gradient.
  double resultBytes = 2;
  /// Below 16 bits: the left operand is cast for this product, with a scale for each small block
  /// or for the whole.
  bool casts = true, blockScaled = false;
  /// The gradient of weights: both operands are made by others, and it is added to what is there.
  bool isWeights = false;
  /// What is moved between two uses of an operand, where that is known.
  std::optional<Bytes> around = {};
};

/// start + max(2mnk / (rate · waste⁻¹ / (1 + depth/k)), bytes / (0.8 · bandwidth)), and below
/// 16 bits the cast of the left operand; where products were measured, by their table. `clock`
/// multiplies the rate: 1 for a kernel measured alone, Device::productClock in a step.
Seconds productTime(const Device &device, const ProductSize &size, double clock,
                    bool splitsWaves = true);

/// Products of `groups` matrices at once, each with m/groups rows: half the rate at 300 rows of
/// a group, and at least the time to read all matrices.
Seconds groupedProductTime(const Device &device, const ProductSize &size, double groups,
                           double clock);

/// Attention of one rank.
struct ScoresSize {
  /// Queries × heads, all sequences.
  double queries = 1;
  /// Keys of a sequence.
  double keys = 1;
  double keyWidth = 64, valueWidth = 64;
  std::optional<double> window;
  /// A query sees the keys before it alone.
  bool causal = true;
  /// Queries are a rank's part of a sequence, and lie with their positions.
  bool isSpread = false;
  Width width = 16;
};

/// Forward: 2 · queries · keys/2 · (keyWidth + valueWidth) operations at rate / (1 + 675/keys),
/// without a causal mask all keys and 250 for 675; at most 64 wide AttentionCurve::narrow of that;
/// with a window that many keys, at the rate of such a length or of "window"; backward 2.5 times as
/// many. "unfused": products over all keys,
/// and 14 bytes a score forward, 18 backward.
Seconds scoresTime(const Device &device, const std::string &kernel, const ScoresSize &size,
                   bool backward, double clock);

/// A kernel that does nothing but move bytes: at the bandwidth that was measured for so many, or
/// Device::streamingBandwidth.
Seconds streamTime(const Device &device, Bytes bytes);
/// The same where all that comes between two uses of what is moved is `around`.
Seconds streamTime(const Device &device, Bytes bytes, Bytes around);
/// The optimizer's update.
Seconds updateTime(const Device &device, Bytes bytes);
/// What is computed of numbers at hand: `operations` of each element by MLIR's names, in rows of
/// `inner`; nothing where arithmetic was not measured.
Seconds functionTime(const Device &device, const std::map<std::string, double> &operations,
                     double elements, double inner);

} // namespace cleave::cost

//===- Layout.h - How a step is laid over devices ----------------------------===//
//
// The degrees of a plan, as the cost model needs them: plain numbers, from pins, from
// a plan or from a published row.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/AxisOrder.h"
#include "cleave/CostModel/Hardware.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::cost {

/// What is computed again before its backward.
enum class Recompute {
  None,
  /// The scores of attention.
  Scores,
  /// All but the products that are costly to repeat: some 45 % of a forward.
  Some,
  /// Every second layer whole.
  EverySecond,
  /// Every third layer whole.
  EveryThird,
  /// What is not dear (cleave/Analysis/Dear.h): passes over memory.
  Passes,
  All,
};

/// Who keeps the state of a parameter.
enum class Sharing {
  /// Every replica all of it.
  None,
  /// The optimizer's state is shared out (ZeRO-1): sums are scattered, parameters gathered.
  Optimizer,
  /// Gradients too (ZeRO-2), parameters whole in forward and backward.
  Gradients,
  /// Parameters too, gathered layer by layer (ZeRO-3).
  Parameters,
};

/// Over how many ranks of each axis the experts of a layer are dealt out.
struct ExpertRanks {
  int64_t data = 1, context = 1, tensor = 1;
};

struct Layout {
  int64_t devices = 1;
  int64_t tensor = 1, context = 1, pipeline = 1, expert = 1, data = 1;
  AxisOrder order = {};
  /// Absent: over neighbours, whatever the context's ranks, as Megatron-Core folds them.
  std::optional<ExpertRanks> experts;
  /// Activations between blocks are cut along the sequence by the tensor axis.
  bool sequence = false;
  /// Embedding, classifier and loss are cut along the vocabulary by the tensor axis.
  bool vocabulary = true;
  /// The tensor axis cuts the width of each expert; else experts are dealt out over its ranks too.
  bool expertWidth = false;
  /// Stages on each rank of the pipeline.
  int64_t stagesPerRank = 1;
  /// The first layer of each stage, and the number of layers; empty: they are dealt out.
  std::vector<int64_t> stageBegins;
  /// A schedule of lib/Schedule, or "zb-2p".
  std::string schedule = "1f1b";
  Sharing sharing = Sharing::None;
  /// State is shared in groups of so many replicas; 0: all of them.
  int64_t sharingGroup = 0;
  /// Sequences.
  int64_t microBatch = 1, globalBatch = 1;
  /// Tokens.
  int64_t sequenceLength = 1;
  /// Of the operands of matrix products in layers; 32: everything is fp32.
  Width width = 16;
  /// Low-precision operands have a scale for each small block (mxfp8, nvfp4).
  bool blockScaled = false;
  /// What is gathered of a shared parameter, for each element.
  Bytes gathered{2};
  Recompute recompute = Recompute::None;

  /// Of what layers make, of the weights that they compute with, and of what the update keeps
  /// for each parameter: two moments, and fp32 weights beside narrower ones.
  Bytes valueBytes() const { return Bytes(width > 16 ? 4 : 2); }
  Bytes weightBytes() const { return valueBytes(); }
  Bytes optimizerBytes() const { return Bytes(width > 16 ? 8 : 12); }

  /// Micro-batches of a step.
  int64_t microBatches() const {
    return std::max<int64_t>(1, globalBatch / std::max<int64_t>(1, data * microBatch));
  }
};

} // namespace cleave::cost

//===- Step.h - Parts of a step, shared by its files ------------------------===//
#pragma once

#include "cleave/CostModel/Collectives.h"
#include "cleave/CostModel/Prediction.h"
#include "lib/CostModel/Pipeline.h"

namespace cleave::cost {

/// Compute slows down by this share of the exchanges that run beside it.
inline constexpr double kSlowedBeside = 0.15;

/// All that a step is made of, before it is added up.
struct StepInput {
  const ModelWork &work;
  const Device &device;
  const HostProfile &host;
  const Layout &layout;
  /// By kind.
  std::vector<LayerTimes> times;
  std::vector<WeightCount> weights;

  int kindOf(int64_t layer) const { return work.layers[layer]; }
  const LayerTimes &timesOf(int64_t layer) const { return times[kindOf(layer)]; }
  const WeightCount &weightsOf(int64_t layer) const { return weights[kindOf(layer)]; }
  int64_t layers() const { return static_cast<int64_t>(work.layers.size()); }

  /// Replicas of a layer that share or sum its state, and those of an expert's.
  Group plainGroup() const;
  Group expertGroup() const;
};

/// What the gradients of weights and the parameters take to be summed and gathered.
struct DataExchange {
  Seconds reduce, gather;
};
DataExchange dataExchangeOf(const StepInput &in, const WeightCount &weights);

/// The step where all layers are on each rank and parameters are gathered for each.
void addSharedParameters(const StepInput &in, Prediction &out);
/// The step of a pipeline of any length (1: none), with state kept or shared.
struct StagePlan {
  std::vector<int64_t> begins;
  PipelineTimes times;
};
StagePlan addPipeline(const StepInput &in, Prediction &out);

MemoryParts memoryOf(const StepInput &in, const StagePlan &plan);

} // namespace cleave::cost

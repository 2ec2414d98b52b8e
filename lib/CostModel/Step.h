//===- Step.h - Parts of a step, shared by its files ------------------------===//
#pragma once

#include "cleave/CostModel/Places.h"
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
  const LayerPrices &prices;

  int kindOf(int64_t layer) const { return work.layers[layer]; }
  const LayerTimes &timesOf(int64_t layer) const { return prices.times[kindOf(layer)]; }
  const WeightCount &weightsOf(int64_t layer) const { return prices.weights[kindOf(layer)]; }
  const LayerMemory &memoryOf(int64_t layer) const { return prices.memory[kindOf(layer)]; }
  int64_t layers() const { return static_cast<int64_t>(work.layers.size()); }

  Places places() const { return {layout, device.link.domain}; }
};

/// Visits the layers of [begin, end) as runs of one kind: the first one of each, and how many. The
/// first and the last layer of the model are runs of their own.
template <typename Visit>
void forEachRun(const ModelWork &work, int64_t begin, int64_t end, Visit visit) {
  const std::vector<int> &kinds = work.layers;
  const auto layers = static_cast<int64_t>(kinds.size());
  for (int64_t i = begin, next; i < end; i = next) {
    next = i + 1;
    while (i > 0 && next < end && kinds[next] == kinds[i] && next + 1 < layers)
      ++next;
    visit(i, next - i);
  }
}

/// What the gradients of weights and the parameters take to be summed and gathered.
struct DataExchange {
  Seconds reduce, gather;
};
DataExchange dataExchangeOf(const StepInput &in, const WeightCount &weights);

/// Whether each micro-batch gathers parameters, or sums gradients.
bool exchangesEachTime(const Layout &layout);
/// Gathering new weights once.
Seconds gatherOnceOf(const StepInput &in, const WeightCount &weights);
/// Whether new weights are gathered behind the update alone, though each micro-batch sums
/// gradients.
bool gathersOnce(const StepInput &in);
/// Forward and backward of a layer with such exchanges beside them.
struct LayerSpan {
  Seconds forward, backward;
};
LayerSpan spanOf(const StepInput &in, const LayerTimes &times, const WeightCount &weights,
                 DataExchange exchange);
/// Of all layers; those of a kind are alike.
std::vector<LayerSpan> spansOf(const StepInput &in);

/// How long a value is on its way to the next stage, and what those who compute lose by it.
struct Sends {
  Seconds transfer, sent;
};
Sends sendsOf(const StepInput &in);

/// Elements of `weights` whose update a rank does.
double ownedOf(const StepInput &in, const WeightCount &weights);
/// A step is longer by this share, since it waits for the slowest of many hosts.
double slowestOfMany(const Layout &layout);

/// The step of a pipeline of any length (1: none), with state kept or shared.
struct StagePlan {
  std::vector<int64_t> begins;
  PipelineTimes times;
};
StagePlan addPipeline(const StepInput &in, PlayBook &book, Prediction &out);

} // namespace cleave::cost

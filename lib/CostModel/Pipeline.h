//===- Pipeline.h - Stages, and a step played out ---------------------------===//
#pragma once

#include "cleave/CostModel/Units.h"
#include "cleave/Schedule/Schedule.h"
#include <vector>

namespace cleave::cost {

/// What one stage takes for a micro-batch.
struct StageTime {
  Seconds forward, backward;
  /// The part of the backward that makes gradients of weights.
  Seconds weightGradients;
};

/// When things happen in a step.
struct PipelineTimes {
  Seconds makespan;
  /// For each rank the time in which it computes.
  std::vector<Seconds> busy;
  /// For each stage the span of its last backward, and the end of its first forward.
  std::vector<Seconds> lastBackwardStart, lastBackwardEnd, firstForwardEnd;
  /// For each rank the most micro-batches × stages whose activations it holds at once.
  std::vector<int64_t> inFlight;

  /// Share of the ranks' time in which they wait.
  double bubble() const;
};

/// Plays the schedule called `schedule`: each rank does its actions in order, each when what it
/// needs has arrived, `transfer` after it was made. `sent` is what each action is
/// longer by where sends are waited for. "zb-2p" is "zb-h1" with bubbles filled up.
PipelineTimes playPipeline(llvm::StringRef schedule, int64_t ranks,
                           const std::vector<StageTime> &stages, int64_t microBatches,
                           Seconds transfer, Seconds sent);

/// The `inFlight` that playing it out comes to, which does not depend on times.
std::vector<int64_t> inFlightOf(llvm::StringRef schedule, int64_t ranks, int64_t stages,
                                int64_t microBatches);

/// Deals `costs`, one for each layer, out to `stages` in order; the first layer of each and the
/// end. Where `balance`, or where blocks do not divide, so that the slowest stage is as fast as can
/// be; else blocks (all but first and last layer) in equal numbers, those two with one block less
/// where only that divides.
std::vector<int64_t> dealLayers(const std::vector<Seconds> &costs, int64_t stages, bool balance);

} // namespace cleave::cost

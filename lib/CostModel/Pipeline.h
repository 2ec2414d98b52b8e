//===- Pipeline.h - Stages, and a step played out ---------------------------===//
#pragma once

#include "cleave/CostModel/Units.h"
#include "cleave/Schedule/Schedule.h"
#include <optional>
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

/// What ranks do, in an order in which each thing is behind what it waits for: it does not depend
/// on times, so one order plays stages of any times.
class PlayOrder {
public:
  /// By the schedule called `name`; "zb-2p" is "zb-h1" with bubbles filled up.
  PlayOrder(llvm::StringRef name, const PipelineShape &shape);

  /// Each rank does what it has to do when what it needs has arrived, `transfer` after it was made.
  /// `sent` is what forward and backward are longer by where sends are waited for.
  PipelineTimes play(const std::vector<StageTime> &stages, Seconds transfer, Seconds sent) const;
  size_t size() const { return acts.size(); }

private:
  static constexpr int32_t kNone = -1;
  struct Act {
    int32_t stage;
    /// The act that it waits for, beside the one before on its rank.
    int32_t after;
    pipe::ActionKind kind;
    /// What it waits for comes from another stage.
    bool travels;
  };
  /// Nothing: what `action` waits for is not there yet.
  std::optional<Act> actOf(const pipe::Action &action, const std::vector<int32_t> &forward,
                           const std::vector<int32_t> &backward) const;

  PipelineShape shape;
  /// Gradients of weights are apart, and fill up what is left.
  bool apart = false, fillsUp = false;
  std::vector<Act> acts;
  std::vector<int64_t> inFlight;
  /// Of each stage its first forward, and its last backward (or gradient of weights).
  std::vector<int32_t> first, last;
};

/// Makes an order and plays it once.
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

//===- Run.h - What a whole training run takes -------------------------------===//
//
// From the time of a step to days, energy, money and interruptions. What is not
// known of a cluster stays unknown in all that follows from it; nothing stands in
// for it.
//
// Conventions. A multiply-add is two operations. The backward takes twice the forward's.
// Model operations are those of matrix products as the graph has them, classifier
// included, embedding look-ups free, and attention's pairs of tokens that see each other
// (causal: half of all). Executed operations count what is computed again too. 6ND is six
// for each parameter (of experts: those that a token is sent to) and token.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/Work.h"
#include "cleave/Planner/Cluster.h"
#include "cleave/Planner/Planner.h"
#include <optional>

namespace cleave {

struct StepOperations {
  double model = 0, executed = 0;
};
/// Of `sequences` sequences of `length` tokens.
StepOperations operationsOf(const cost::ModelWork &work, int64_t length, int64_t sequences,
                            Recompute recompute);

double sixND(double parameters, double tokens);

/// The optimum of Young, corrected by Daly: time between checkpoints, beside the one that a
/// checkpoint takes, where a run is interrupted every `between` seconds.
double checkpointInterval(double checkpoint, double between);

/// The share of time in which a run goes on: not saving, not restarting, not doing again what an
/// interruption took.
double goodputOf(double checkpoint, double interval, double between, double restart);

struct RunFacts {
  double steps = 0, days = 0, deviceHours = 0;
  /// W of all devices with what their hosts and cooling add; kWh of the run.
  std::optional<double> power, energy;
  std::optional<double> money;
  /// Seconds between interruptions, and how many the run has.
  std::optional<double> between, interruptions;
  /// Seconds that a checkpoint takes, and between two of them.
  std::optional<double> checkpoint, interval;
  /// Days of the run with interruptions.
  std::optional<double> goodput, daysWithInterruptions;
};
/// `power`: W of a device; `state`: bytes of a checkpoint, of all ranks.
RunFacts runOf(double stepSeconds, double tokensOfStep, double tokens, const Cluster &cluster,
               std::optional<double> power, double state);

} // namespace cleave

//===- BruteForce.h - A pipeline, tick by tick ------------------------------===//
//
// Shares nothing with playOut but the table: a clock counts up, and each rank is a
// machine that is busy, waits, or takes its next action. All it knows is asked of
// messages by name, not of channels' order.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Schedule/Schedule.h"

namespace cleave {

struct BruteForceResult {
  /// -1: not within the limit of ticks.
  int64_t makespan = -1;
  std::vector<int64_t> busy;
  /// For each rank the most micro-batches (counted per stage) of which the forward had
  /// begun and the last gradient had not ended, at any tick.
  std::vector<int64_t> inFlight;
  /// The first broken dependence; empty if there was none.
  std::string broken;
};

/// `times` and `transfer` are whole.
BruteForceResult bruteForce(const pipe::Table &table, const pipe::Times &times);

} // namespace cleave

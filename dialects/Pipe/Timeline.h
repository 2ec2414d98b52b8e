//===- Timeline.h - When each action of a pipeline happens -----------------===//
//
// Plays a table out: every rank does its actions in order, each as soon as it can.
// A computation takes its stage's time. A send takes none, and waits while its
// channel is full; what is sent arrives `transfer` later. A receive takes none, and
// waits for it. Times are in any one unit.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Pipe/Table.h"

namespace cleave::pipe {

/// How long the actions of a stage take. `backward` is of the input alone where the
/// table has gradients of weights apart.
struct StageTimes {
  double forward = 1, backward = 2, weightGradient = 0;
};

struct Times {
  /// One for each stage, or one for all.
  llvm::SmallVector<StageTimes> stages{StageTimes()};
  double transfer = 0;

  const StageTimes &of(int64_t stage) const { return stages[stages.size() == 1 ? 0 : stage]; }
};

/// Times by which a step of 1 forward and 2 backward is drawn and compared.
Times equalTimes(bool weightGradientsApart);

struct Timeline {
  struct Span {
    double start = 0, end = 0;
  };
  /// For each rank those of its actions that were reached, in order.
  std::vector<std::vector<Span>> ranks;
  /// False: each rank that is not at its end waits for ever at its next action.
  bool finished = false;

  /// When the last action ends.
  double makespan() const;
};

/// `table` need not be right, but its stages and peers must exist.
Timeline playOut(const Table &table, const Times &times);

} // namespace cleave::pipe

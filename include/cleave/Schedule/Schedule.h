//===- Schedule.h - Schedules of pipelines, and what they cost -------------===//
//
// A schedule is one function that says in which order each rank computes. What
// follows from the order is the same for all of them and made here: transfers,
// slots, the size of channels. Stage s of S is on rank s mod P.
//
// Plain functions of numbers, for those who write a plan's pipeline as IR and for
// those who compare plans.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Pipe/Timeline.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace cleave {

/// The most stages × micro-batches that are written down.
inline constexpr int64_t kMostCells = int64_t(1) << 20;

/// The size of a pipeline: at least one of each, and `stages` a multiple of `ranks`.
struct PipelineShape {
  int64_t ranks = 1, stages = 1, microBatches = 1;

  bool canBeWritten() const { return stages <= kMostCells && microBatches <= kMostCells / stages; }
};

/// The smallest micro-batch, of those that divide `sequences`, by which the schedule of
/// `stages` stages can be written; `sequences` where the next one is far off.
int64_t leastMicroBatch(int64_t sequences, int64_t stages);

/// For each rank what it computes, in order; slots are not set.
using ComputeOrder = std::vector<std::vector<pipe::Action>>;

/// A way to order a step.
struct Schedule {
  /// As in plans and pins: "1f1b".
  llvm::StringLiteral name;
  /// For people.
  llvm::StringLiteral summary;
  /// Whether ranks have several stages (at least two), or just one.
  bool severalStages;
  ComputeOrder (*order)(const PipelineShape &shape);
  /// The most micro-batches × stages of which a rank keeps activations at once by this order.
  int64_t (*inFlight)(const PipelineShape &shape, int64_t rank);

  /// Whether it can order a pipeline of this many stages on a rank.
  bool takes(int64_t stagesOfRank) const { return (stagesOfRank > 1) == severalStages; }
};

/// All that can be named.
llvm::ArrayRef<Schedule> allSchedules();
/// Null where there is none of this name.
const Schedule *findSchedule(llvm::StringRef name);

/// The step of a pipeline by `schedule`, which takes its stages. Channels hold the
/// fewest values by which nobody waits for room when all stages take equal times.
pipe::Table makeTable(const Schedule &schedule, const PipelineShape &shape);

/// Adds the transfers that `order` needs: a send right behind what it sends, a
/// receive right before its first use, or earlier to keep a channel's order. Gives
/// each stage and micro-batch the lowest slot that is free from the first of its
/// actions to the last.
pipe::Table addTransfers(const ComputeOrder &order, llvm::ArrayRef<int64_t> rankOfStage,
                         int64_t microBatches);

/// How many slots hold something during each action of `rank`.
std::vector<int64_t> slotsInUse(const pipe::Table &table, int64_t rank);

/// What a step takes.
struct ScheduleFacts {
  double makespan = 0;
  /// For each rank the time in which it computes, and the most slots in use.
  std::vector<double> busy;
  std::vector<int64_t> inFlight;

  /// The share of all ranks' time in which they do not compute.
  double bubble() const;
};
ScheduleFacts factsOf(const pipe::Table &table, const pipe::Timeline &timeline);

/// The table as text for people: for each rank a line of what it does in each unit of
/// time (F, B, W, or a point) and one of the micro-batch's last digit; with several
/// stages on a rank one of the stage's last digit too. Times must be whole; columns
/// beyond `width` are left out, and it is said.
std::string drawSchedule(const pipe::Table &table, const pipe::Timeline &timeline,
                         int64_t width = 200);

} // namespace cleave

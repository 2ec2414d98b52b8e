//===- Orders.cpp - In which order ranks compute, by schedule --------------===//
//
// A new schedule is one function and its entry in the list below.
//
//===----------------------------------------------------------------------===//

#include "cleave/Schedule/Schedule.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;
namespace cleave {

using pipe::Action;
using pipe::ActionKind;

static Action forward(int64_t stage, int64_t micro) { return {ActionKind::Forward, stage, micro}; }
static Action backward(int64_t stage, int64_t micro) {
  return {ActionKind::Backward, stage, micro};
}
static Action weightGradient(int64_t stage, int64_t micro) {
  return {ActionKind::WeightGradient, stage, micro};
}

/// All forward, then all backward.
static ComputeOrder orderGPipe(const PipelineShape &shape) {
  ComputeOrder order(shape.ranks);
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    for (int64_t micro = 0; micro < shape.microBatches; ++micro)
      order[rank].push_back(forward(rank, micro));
    for (int64_t micro = 0; micro < shape.microBatches; ++micro)
      order[rank].push_back(backward(rank, micro));
  }
  return order;
}

static int64_t inFlightGPipe(const PipelineShape &shape, int64_t /*rank*/) {
  return shape.microBatches;
}

/// As many forward as it takes for the first to come back, then one forward and one
/// backward in turn: rank s has at most P - s in flight.
static ComputeOrder orderOneForwardOneBackward(const PipelineShape &shape) {
  ComputeOrder order(shape.ranks);
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    const int64_t warm = std::min(shape.ranks - 1 - rank, shape.microBatches);
    for (int64_t i = 0; i < shape.microBatches + warm; ++i) {
      if (i < shape.microBatches)
        order[rank].push_back(forward(rank, i));
      if (i >= warm)
        order[rank].push_back(backward(rank, i - warm));
    }
  }
  return order;
}

static int64_t inFlightOneForwardOneBackward(const PipelineShape &shape, int64_t rank) {
  return std::min(shape.ranks - rank, shape.microBatches);
}

/// Steps of an interleaved order before a rank's first backward.
static int64_t warmUp(const PipelineShape &shape, int64_t rank) {
  return 2 * (shape.ranks - 1 - rank) + (shape.stages / shape.ranks - 1) * shape.ranks;
}

/// The same with v stages on a rank, P micro-batches through one after the other
/// (Megatron-LM). Where P does not divide the micro-batches, those that lack in the last
/// P are left out of the order of the next multiple, which breaks no dependence.
static ComputeOrder orderInterleaved(const PipelineShape &shape) {
  const int64_t ranks = shape.ranks, perRank = shape.stages / ranks;
  const int64_t total = alignTo(shape.microBatches, ranks) * perRank;
  ComputeOrder order(ranks);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    auto add = [&](int64_t i, bool isForward) {
      const int64_t group = i / (ranks * perRank), within = i % (ranks * perRank);
      const int64_t turn = within / ranks, micro = group * ranks + within % ranks;
      const int64_t stage = (isForward ? turn : perRank - 1 - turn) * ranks + rank;
      if (micro < shape.microBatches)
        order[rank].push_back(isForward ? forward(stage, micro) : backward(stage, micro));
    };
    const int64_t warm = std::min(total, warmUp(shape, rank));
    for (int64_t i = 0; i < total + warm; ++i) {
      if (i < total)
        add(i, /*isForward=*/true);
      if (i >= warm)
        add(i - warm, /*isForward=*/false);
    }
  }
  return order;
}

static int64_t inFlightInterleaved(const PipelineShape &shape, int64_t rank) {
  const int64_t ranks = shape.ranks, perRank = shape.stages / ranks;
  const int64_t total = alignTo(shape.microBatches, ranks) * perRank;
  const int64_t warm = std::min(total, warmUp(shape, rank));
  const int64_t lacking = shape.microBatches % ranks;
  const int64_t whole = (shape.microBatches - lacking) * perRank;
  // As many as are forward before the first backward, and one.
  if (warm < whole || lacking == 0)
    return std::min(warm + 1, total);
  // Of the last P some are left out.
  auto done = [&](int64_t steps) {
    const int64_t last = std::max<int64_t>(steps - whole, 0);
    return std::min(steps, whole) + last / ranks * lacking + std::min(last % ranks, lacking);
  };
  int64_t most = 0;
  for (int64_t i = 0; i < total; ++i)
    most = std::max(most, done(i + 1) - done(std::max<int64_t>(i - warm, 0)));
  return most;
}

/// 1F1B with the gradients of weights apart (zero bubble, ZB-H1): rank s puts s of them
/// off, so that they fill its wait at the end. P micro-batches are in flight on every rank.
static ComputeOrder orderZeroBubble(const PipelineShape &shape) {
  ComputeOrder order(shape.ranks);
  for (auto [rank, actions] : llvm::enumerate(orderOneForwardOneBackward(shape))) {
    int64_t done = 0;
    const int64_t late = std::min<int64_t>(rank, shape.microBatches);
    for (const Action &action : actions) {
      order[rank].push_back(action);
      if (action.kind == ActionKind::Backward && action.micro >= late)
        order[rank].push_back(weightGradient(action.stage, done++));
    }
    while (done < shape.microBatches)
      order[rank].push_back(weightGradient(static_cast<int64_t>(rank), done++));
  }
  return order;
}

static int64_t inFlightZeroBubble(const PipelineShape &shape, int64_t /*rank*/) {
  return std::min(shape.ranks, shape.microBatches);
}

ArrayRef<Schedule> allSchedules() {
  static constexpr Schedule all[] = {
      {"gpipe", "all forward, then all backward", false, orderGPipe, inFlightGPipe},
      {"1f1b", "one forward and one backward in turn", false, orderOneForwardOneBackward,
       inFlightOneForwardOneBackward},
      {"interleaved", "1f1b with several stages on a rank", true, orderInterleaved,
       inFlightInterleaved},
      {"zb-h1", "1f1b with gradients of weights apart, in what would be its bubble", false,
       orderZeroBubble, inFlightZeroBubble},
  };
  return all;
}

const Schedule *findSchedule(StringRef name) {
  for (const Schedule &schedule : allSchedules())
    if (schedule.name == name)
      return &schedule;
  return nullptr;
}

} // namespace cleave

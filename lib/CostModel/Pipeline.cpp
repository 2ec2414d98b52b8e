//===- Pipeline.cpp - Stages, and a step played out ------------------------===//

#include "lib/CostModel/Pipeline.h"
#include "llvm/ADT/STLExtras.h"

using cleave::pipe::Action;
using cleave::pipe::ActionKind;
namespace cleave::cost {

/// Bubbles that "zb-2p" leaves of those of "zb-h1"'s order: (p - 1)(f + b - 2w) of
/// (p - 1)(f + b - w) with f = b = w is none; measured 2 % of a 1f1b step's (arXiv 2401.10241).
static constexpr double kLeftOfBubble = 0.05;

double PipelineTimes::bubble() const {
  double sum = 0;
  for (Seconds time : busy)
    sum += time.value;
  return 1 - sum / (makespan.value * static_cast<double>(busy.size()));
}

namespace {

/// Plays an order of computations.
class Player {
public:
  Player(const ComputeOrder &order, const std::vector<StageTime> &stages, int64_t microBatches,
         Seconds transfer, Seconds sent, bool weightsApart)
      : order(order), stages(stages), transfer(transfer), sent(sent), apart(weightsApart),
        forwardEnd(stages.size() * microBatches, Seconds(-1)), backwardEnd(forwardEnd),
        micros(microBatches), next(order.size()), clock(order.size()), held(order.size()) {
    times.busy.resize(order.size());
    times.inFlight.resize(order.size());
    times.lastBackwardStart.resize(stages.size());
    times.lastBackwardEnd.resize(stages.size());
    times.firstForwardEnd.assign(stages.size(), Seconds(-1));
  }

  PipelineTimes play() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < order.size(); ++rank)
        while (next[rank] < order[rank].size() && doNext(rank))
          moved = true;
    }
    for (Seconds end : clock)
      times.makespan = std::max(times.makespan, end);
    return times;
  }

private:
  Seconds &cell(std::vector<Seconds> &of, int64_t stage, int64_t micro) {
    return of[stage * micros + micro];
  }

  /// When what `action` needs is there; below 0: not yet.
  Seconds ready(const Action &action) {
    const int64_t last = static_cast<int64_t>(stages.size()) - 1;
    if (action.kind == ActionKind::Forward) {
      if (action.stage == 0)
        return Seconds(0);
      const Seconds end = cell(forwardEnd, action.stage - 1, action.micro);
      return end < Seconds(0) ? end : end + transfer;
    }
    if (action.kind == ActionKind::WeightGradient || action.stage == last)
      return cell(action.kind == ActionKind::Backward ? forwardEnd : backwardEnd, action.stage,
                  action.micro);
    const Seconds end = cell(backwardEnd, action.stage + 1, action.micro);
    return end < Seconds(0) ? end : end + transfer;
  }

  bool doNext(size_t rank) {
    const Action &action = order[rank][next[rank]];
    const Seconds when = ready(action);
    if (when < Seconds(0))
      return false;
    const StageTime &stage = stages[action.stage];
    const bool isForward = action.kind == ActionKind::Forward;
    const bool isWeights = action.kind == ActionKind::WeightGradient;
    Seconds takes = isForward ? stage.forward + sent
                    : isWeights
                        ? stage.weightGradients
                        : stage.backward + sent - (apart ? stage.weightGradients : Seconds());
    const Seconds start = std::max(clock[rank], when), end = start + takes;
    clock[rank] = end;
    times.busy[rank] += takes;
    if (isForward) {
      cell(forwardEnd, action.stage, action.micro) = end;
      if (times.firstForwardEnd[action.stage] < Seconds(0))
        times.firstForwardEnd[action.stage] = end;
      times.inFlight[rank] = std::max(times.inFlight[rank], ++held[rank]);
    } else {
      if (!isWeights)
        cell(backwardEnd, action.stage, action.micro) = end;
      if (isWeights == apart) {
        --held[rank];
        times.lastBackwardStart[action.stage] = start;
        times.lastBackwardEnd[action.stage] = end;
      }
    }
    ++next[rank];
    return true;
  }

  const ComputeOrder &order;
  const std::vector<StageTime> &stages;
  const Seconds transfer, sent;
  const bool apart;
  std::vector<Seconds> forwardEnd, backwardEnd;
  const int64_t micros;
  std::vector<size_t> next;
  std::vector<Seconds> clock;
  std::vector<int64_t> held;
  PipelineTimes times;
};

} // namespace

namespace {

/// The schedule that a name stands for.
struct NamedSchedule {
  const Schedule *schedule;
  /// Gradients of weights are apart, and fill up what is left.
  bool apart = false, fillsUp = false;
};

} // namespace

static NamedSchedule scheduleOf(llvm::StringRef name, const PipelineShape &shape) {
  NamedSchedule out;
  out.fillsUp = name == "zb-2p";
  out.schedule = findSchedule(out.fillsUp ? "zb-h1" : name);
  if (!out.schedule || !out.schedule->takes(shape.stages / shape.ranks))
    out.schedule = findSchedule(shape.stages > shape.ranks ? "interleaved" : "1f1b");
  out.apart = out.schedule->name == llvm::StringRef("zb-h1");
  return out;
}

PipelineTimes playPipeline(llvm::StringRef name, int64_t ranks,
                           const std::vector<StageTime> &stages, int64_t microBatches,
                           Seconds transfer, Seconds sent) {
  const PipelineShape shape{ranks, static_cast<int64_t>(stages.size()), microBatches};
  const NamedSchedule named = scheduleOf(name, shape);
  const ComputeOrder order = named.schedule->order(shape);
  PipelineTimes times = Player(order, stages, microBatches, transfer, sent, named.apart).play();
  if (named.fillsUp) {
    const Seconds busiest = *std::max_element(times.busy.begin(), times.busy.end());
    const Seconds gained = (1 - kLeftOfBubble) * above(times.makespan, busiest);
    times.makespan = times.makespan - gained;
    // What waited for the bubble is earlier by as much.
    for (auto *moments : {&times.lastBackwardStart, &times.lastBackwardEnd})
      for (Seconds &moment : *moments)
        moment = above(moment, gained);
    for (int64_t &held : times.inFlight)
      held = std::min(2 * ranks - 1, microBatches);
  }
  return times;
}

std::vector<int64_t> inFlightOf(llvm::StringRef name, int64_t ranks, int64_t stages,
                                int64_t microBatches) {
  const PipelineShape shape{ranks, stages, microBatches};
  const NamedSchedule named = scheduleOf(name, shape);
  std::vector<int64_t> most;
  for (int64_t rank = 0; rank < ranks; ++rank)
    most.push_back(named.fillsUp ? std::min(2 * ranks - 1, microBatches)
                                 : named.schedule->inFlight(shape, rank));
  return most;
}

/// Whether the layers fit on `stages` stages of at most `most` each; where they begin.
static bool fits(const std::vector<Seconds> &costs, int64_t stages, Seconds most,
                 std::vector<int64_t> &begins) {
  begins.assign(1, 0);
  Seconds sum;
  const auto count = static_cast<int64_t>(costs.size());
  for (int64_t i = 0; i < count; ++i) {
    // Each later stage needs a layer too.
    const int64_t open = stages - static_cast<int64_t>(begins.size());
    if (i > begins.back() && (sum + costs[i] > most || count - i <= open)) {
      if (open == 0)
        return false;
      begins.push_back(i);
      sum = {};
    }
    sum += costs[i];
  }
  begins.push_back(count);
  return static_cast<int64_t>(begins.size()) == stages + 1 && sum <= most;
}

std::vector<int64_t> dealLayers(const std::vector<Seconds> &costs, int64_t stages, bool balance) {
  const auto count = static_cast<int64_t>(costs.size());
  const int64_t blocks = count - 2;
  std::vector<int64_t> begins;
  if (!balance && (blocks % stages == 0 || (blocks + 2) % stages == 0)) {
    const bool isEven = blocks % stages == 0;
    const int64_t each = isEven ? blocks / stages : (blocks + 2) / stages;
    if (each > (isEven ? 0 : 1)) {
      begins.push_back(0);
      // Layer 0 is before the blocks.
      for (int64_t s = 1; s < stages; ++s)
        begins.push_back(1 + s * each - (isEven ? 0 : 1));
      begins.push_back(count);
      return begins;
    }
  }
  Seconds low, high;
  for (Seconds cost : costs)
    high += cost;
  std::vector<int64_t> best;
  for (int round = 0; round < 50; ++round) {
    const Seconds middle = (low + high) / 2;
    (fits(costs, stages, middle, begins) ? high : low) = middle;
    if (high == middle)
      best = begins;
  }
  if (best.empty())
    fits(costs, stages, high * 2, best);
  return best;
}

} // namespace cleave::cost

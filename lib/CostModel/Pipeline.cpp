//===- Pipeline.cpp - Stages, and a step played out ------------------------===//

#include "lib/CostModel/Pipeline.h"
#include "cleave/CostModel/PlayBook.h"
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

PlayOrder::PlayOrder(llvm::StringRef name, const PipelineShape &shape)
    : shape(shape), inFlight(shape.ranks), first(shape.stages, kNone), last(shape.stages, kNone) {
  const NamedSchedule named = scheduleOf(name, shape);
  apart = named.apart;
  fillsUp = named.fillsUp;
  const ComputeOrder order = named.schedule->order(shape);
  std::vector<size_t> next(order.size());
  std::vector<int64_t> held(order.size());
  // Where forward and backward of a stage and a micro-batch are.
  std::vector<int32_t> forward(shape.stages * shape.microBatches, kNone), backward(forward);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < order.size(); ++rank)
      for (; next[rank] < order[rank].size(); ++next[rank]) {
        const Action &action = order[rank][next[rank]];
        const std::optional<Act> act = actOf(action, forward, backward);
        if (!act)
          break;
        moved = true;
        const auto here = static_cast<int32_t>(acts.size());
        acts.push_back(*act);
        const int64_t cell = action.stage * shape.microBatches + action.micro;
        if (action.kind == ActionKind::Forward) {
          forward[cell] = here;
          if (first[action.stage] == kNone)
            first[action.stage] = here;
          inFlight[rank] = std::max(inFlight[rank], ++held[rank]);
          continue;
        }
        const bool isWeights = action.kind == ActionKind::WeightGradient;
        if (!isWeights)
          backward[cell] = here;
        if (isWeights == apart) {
          --held[rank];
          last[action.stage] = here;
        }
      }
  }
  if (fillsUp)
    for (int64_t &most : inFlight)
      most = std::min(2 * shape.ranks - 1, shape.microBatches);
}

std::optional<PlayOrder::Act> PlayOrder::actOf(const Action &action,
                                               const std::vector<int32_t> &forward,
                                               const std::vector<int32_t> &backward) const {
  Act act{static_cast<int32_t>(action.stage), kNone, action.kind, false};
  const int64_t cell = action.stage * shape.microBatches + action.micro;
  if (action.kind == ActionKind::Forward) {
    if (action.stage == 0)
      return act;
    act.after = forward[cell - shape.microBatches];
    act.travels = true;
  } else if (action.kind == ActionKind::WeightGradient) {
    act.after = backward[cell];
  } else if (action.stage + 1 == shape.stages) {
    act.after = forward[cell];
  } else {
    act.after = backward[cell + shape.microBatches];
    act.travels = true;
  }
  return act.after == kNone ? std::nullopt : std::optional(act);
}

PipelineTimes PlayOrder::play(const std::vector<StageTime> &stages, Seconds transfer,
                              Seconds sent) const {
  PipelineTimes times;
  times.busy.resize(shape.ranks);
  times.inFlight = inFlight;
  // Of each stage, by kind of action.
  std::vector<std::array<Seconds, 3>> takes;
  for (const StageTime &stage : stages) {
    std::array<Seconds, 3> &of = takes.emplace_back();
    of[static_cast<size_t>(ActionKind::Forward)] = stage.forward + sent;
    of[static_cast<size_t>(ActionKind::Backward)] =
        stage.backward + sent - (apart ? stage.weightGradients : Seconds());
    of[static_cast<size_t>(ActionKind::WeightGradient)] = stage.weightGradients;
  }
  std::vector<Seconds> clock(shape.ranks), start(acts.size()), end(acts.size());
  for (size_t i = 0; i < acts.size(); ++i) {
    const Act &act = acts[i];
    const int64_t rank = act.stage % shape.ranks;
    Seconds ready;
    if (act.after != kNone)
      ready = act.travels ? end[act.after] + transfer : end[act.after];
    const Seconds span = takes[act.stage][static_cast<size_t>(act.kind)];
    start[i] = std::max(clock[rank], ready);
    clock[rank] = end[i] = start[i] + span;
    times.busy[rank] += span;
  }
  for (Seconds done : clock)
    times.makespan = std::max(times.makespan, done);
  for (int64_t s = 0; s < shape.stages; ++s) {
    times.firstForwardEnd.push_back(end[first[s]]);
    times.lastBackwardStart.push_back(start[last[s]]);
    times.lastBackwardEnd.push_back(end[last[s]]);
  }
  if (fillsUp) {
    const Seconds busiest = *std::max_element(times.busy.begin(), times.busy.end());
    const Seconds gained = (1 - kLeftOfBubble) * above(times.makespan, busiest);
    times.makespan = times.makespan - gained;
    // What waited for the bubble is earlier by as much.
    for (auto *moments : {&times.lastBackwardStart, &times.lastBackwardEnd})
      for (Seconds &moment : *moments)
        moment = above(moment, gained);
  }
  return times;
}

PlayBook::PlayBook() = default;
PlayBook::~PlayBook() = default;

const PlayOrder &PlayBook::of(llvm::StringRef schedule, const PipelineShape &shape) {
  auto [it, fresh] =
      orders.try_emplace(std::tuple(schedule.str(), shape.ranks, shape.stages, shape.microBatches));
  if (!fresh)
    return *it->second;
  auto order = std::make_unique<PlayOrder>(schedule, shape);
  size += order->size();
  if (size > kMostActs) {
    const auto key = it->first;
    orders.clear();
    size = order->size();
    it = orders.try_emplace(key).first;
  }
  it->second = std::move(order);
  return *it->second;
}

PipelineTimes playPipeline(llvm::StringRef name, int64_t ranks,
                           const std::vector<StageTime> &stages, int64_t microBatches,
                           Seconds transfer, Seconds sent) {
  return PlayOrder(name, {ranks, static_cast<int64_t>(stages.size()), microBatches})
      .play(stages, transfer, sent);
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

//===- Timeline.cpp - When each action of a pipeline happens ---------------===//

#include "dialects/Pipe/Timeline.h"
#include <deque>
#include <map>

namespace cleave::pipe {

Times equalTimes(bool weightGradientsApart) {
  Times times;
  times.stages = {weightGradientsApart ? StageTimes{1, 1, 1} : StageTimes{1, 2, 0}};
  return times;
}

double Timeline::makespan() const {
  double last = 0;
  for (const auto &spans : ranks)
    if (!spans.empty())
      last = std::max(last, spans.back().end);
  return last;
}

namespace {
class Player {
public:
  Player(const Table &table, const Times &times) : table(table), times(times) {
    timeline.ranks.resize(table.ranks.size());
  }

  Timeline play() {
    std::deque<int64_t> ready;
    std::vector<bool> isReady(table.ranks.size(), true);
    for (size_t rank = 0; rank < table.ranks.size(); ++rank)
      ready.push_back(static_cast<int64_t>(rank));
    while (!ready.empty()) {
      const int64_t rank = ready.front();
      ready.pop_front();
      isReady[rank] = false;
      auto &spans = timeline.ranks[rank];
      const std::vector<Action> &actions = table.ranks[rank].actions;
      while (spans.size() < actions.size() && step(rank, actions[spans.size()])) {
        // Who is on the other side may go on by that.
        const Action &done = actions[spans.size() - 1];
        if (done.isComputation() || isReady[done.peer])
          continue;
        isReady[done.peer] = true;
        ready.push_back(done.peer);
      }
    }
    timeline.finished = true;
    for (auto [rank, spans] : llvm::zip(table.ranks, timeline.ranks))
      timeline.finished &= spans.size() == rank.actions.size();
    return std::move(timeline);
  }

private:
  struct Queue {
    /// When the values sent so far arrive, and when those received were.
    std::vector<double> arrivals, receipts;
  };

  /// Does `action` if it can be done.
  bool step(int64_t rank, const Action &action) {
    auto &spans = timeline.ranks[rank];
    const double now = spans.empty() ? 0 : spans.back().end;
    if (action.isComputation()) {
      spans.push_back({now, now + durationOf(action)});
      return true;
    }
    Queue &queue = queues[channelOf(action, rank)];
    double start = now;
    if (action.isSend()) {
      const size_t sent = queue.arrivals.size();
      if (const size_t room = static_cast<size_t>(table.buffers); sent >= room) {
        if (queue.receipts.size() <= sent - room)
          return false;
        start = std::max(now, queue.receipts[sent - room]);
      }
      queue.arrivals.push_back(start + times.transfer);
    } else {
      const size_t received = queue.receipts.size();
      if (queue.arrivals.size() <= received)
        return false;
      start = std::max(now, queue.arrivals[received]);
      queue.receipts.push_back(start);
    }
    spans.push_back({start, start});
    return true;
  }

  double durationOf(const Action &action) const {
    const StageTimes &stage = times.of(action.stage);
    if (action.kind == ActionKind::Forward)
      return stage.forward;
    return action.kind == ActionKind::Backward ? stage.backward : stage.weightGradient;
  }

  const Table &table;
  const Times &times;
  std::map<Channel, Queue> queues;
  Timeline timeline;
};
} // namespace

Timeline playOut(const Table &table, const Times &times) { return Player(table, times).play(); }

} // namespace cleave::pipe

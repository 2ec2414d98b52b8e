//===- BruteForce.cpp - A pipeline, tick by tick ---------------------------===//

#include "BruteForce.h"
#include <map>
#include <set>
#include <tuple>

namespace cleave {

using pipe::Action;
using pipe::ActionKind;

namespace {
/// Stage that is entered, micro-batch, whether it is the gradient.
using Message = std::tuple<int64_t, int64_t, bool>;
using Pair = std::tuple<int64_t, int64_t, bool>;

class Clockwork {
public:
  Clockwork(const pipe::Table &table, const pipe::Times &times) : table(table), times(times) {
    next.resize(table.ranks.size(), 0);
    until.resize(table.ranks.size(), 0);
    result.busy.resize(table.ranks.size(), 0);
    result.inFlight.resize(table.ranks.size(), 0);
    live.resize(table.ranks.size());
  }

  BruteForceResult run(int64_t limit) {
    for (now = 0; now <= limit; ++now) {
      bool moved = true;
      while (moved) {
        moved = false;
        for (size_t rank = 0; rank < next.size(); ++rank)
          while (take(rank))
            moved = true;
      }
      bool over = true;
      for (size_t rank = 0; rank < next.size(); ++rank) {
        over &= next[rank] == table.ranks[rank].actions.size() && until[rank] <= now;
        result.busy[rank] += until[rank] > now;
      }
      if (over) {
        result.makespan = now;
        return result;
      }
    }
    return result;
  }

private:
  /// Takes the next action of `rank` at this tick, if it can be taken.
  bool take(size_t rank) {
    const auto &actions = table.ranks[rank].actions;
    if (until[rank] > now)
      return false;
    finish(rank);
    if (next[rank] == actions.size())
      return false;
    const Action &action = actions[next[rank]];
    if (!action.isComputation()) {
      if (!transfer(rank, action))
        return false;
      ++next[rank];
      return true;
    }
    begin(rank, action);
    ++next[rank];
    return true;
  }

  bool transfer(size_t rank, const Action &action) {
    const Message message{action.stage, action.micro, action.isOfGradient()};
    const auto self = static_cast<int64_t>(rank);
    if (action.isSend()) {
      int64_t &inside = held[{self, action.peer, action.isOfGradient()}];
      if (inside == table.buffers)
        return false;
      ++inside;
      if (!produced.contains({action.ownStage(), action.micro, action.isOfGradient()}))
        breaks(action);
      arrival[message] = now + static_cast<int64_t>(times.transfer);
      return true;
    }
    auto it = arrival.find(message);
    if (it == arrival.end() || it->second > now)
      return false;
    --held[{action.peer, self, action.isOfGradient()}];
    arrived.insert({message, self});
    return true;
  }

  void begin(size_t rank, const Action &action) {
    const auto self = static_cast<int64_t>(rank);
    const pipe::StageTimes &stage = times.of(action.stage);
    const int64_t s = action.stage, m = action.micro;
    double length = stage.weightGradient;
    if (action.kind == ActionKind::Forward) {
      length = stage.forward;
      if (s > 0 && !reached(s, m, false, self, s - 1))
        breaks(action);
      live[rank].insert({s, m});
      result.inFlight[rank] =
          std::max(result.inFlight[rank], static_cast<int64_t>(live[rank].size()));
    } else if (action.kind == ActionKind::Backward) {
      length = stage.backward;
      if (!produced.contains({s, m, false}) ||
          (s + 1 < table.stages() && !reached(s + 1, m, true, self, s + 1)))
        breaks(action);
    } else if (!produced.contains({s, m, true})) {
      breaks(action);
    }
    doing[rank] = action;
    until[rank] = now + static_cast<int64_t>(length);
  }

  /// Whether what passes into `entered` is on `rank`: received, or made there by `maker`.
  bool reached(int64_t entered, int64_t micro, bool gradient, int64_t rank, int64_t maker) {
    return arrived.contains({{entered, micro, gradient}, rank}) ||
           (table.rankOfStage[maker] == rank && produced.contains({maker, micro, gradient}));
  }

  /// What `rank` was doing is over.
  void finish(size_t rank) {
    auto it = doing.find(rank);
    if (it == doing.end())
      return;
    const Action action = it->second;
    doing.erase(it);
    const bool last = action.kind == (table.hasWeightGradients() ? ActionKind::WeightGradient
                                                                 : ActionKind::Backward);
    if (last)
      live[rank].erase({action.stage, action.micro});
    if (action.kind != ActionKind::WeightGradient)
      produced.insert({action.stage, action.micro, action.kind == ActionKind::Backward});
  }

  void breaks(const Action &action) {
    if (result.broken.empty())
      result.broken = toString(action);
  }

  const pipe::Table &table;
  const pipe::Times &times;
  int64_t now = 0;
  std::vector<size_t> next;
  std::vector<int64_t> until;
  std::map<size_t, Action> doing;
  std::vector<std::set<std::pair<int64_t, int64_t>>> live;
  std::map<Pair, int64_t> held;
  std::map<Message, int64_t> arrival;
  std::set<std::pair<Message, int64_t>> arrived;
  /// Stage, micro-batch, whether the gradient: computed.
  std::set<std::tuple<int64_t, int64_t, bool>> produced;
  BruteForceResult result;
};
} // namespace

BruteForceResult bruteForce(const pipe::Table &table, const pipe::Times &times) {
  int64_t limit = 0;
  for (const auto &rank : table.ranks)
    for (const Action &action : rank.actions) {
      const pipe::StageTimes &stage = times.of(std::min(action.stage, table.stages() - 1));
      limit += static_cast<int64_t>(stage.forward + stage.backward + stage.weightGradient +
                                    times.transfer) +
               1;
    }
  return Clockwork(table, times).run(limit);
}

} // namespace cleave

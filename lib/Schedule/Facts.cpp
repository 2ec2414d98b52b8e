//===- Facts.cpp - What a step of a pipeline takes -------------------------===//

#include "cleave/Schedule/Schedule.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

namespace cleave {

using pipe::Action;
using pipe::Table;

std::vector<int64_t> slotsInUse(const Table &table, int64_t rank) {
  const std::vector<Action> &actions = table.ranks[rank].actions;
  std::map<std::pair<int64_t, int64_t>, std::pair<size_t, size_t>> lives;
  for (auto [i, action] : llvm::enumerate(actions)) {
    auto [life, fresh] = lives.try_emplace({action.ownStage(), action.micro}, i, i);
    life->second.second = i;
    // A backward reads the gradient that the next stage left on the same rank.
    if (auto next = lives.find({action.stage + 1, action.micro});
        action.kind == pipe::ActionKind::Backward && next != lives.end())
      next->second.second = i;
  }
  std::vector<int64_t> change(actions.size() + 1, 0);
  for (const auto &[key, life] : lives) {
    ++change[life.first];
    --change[life.second + 1];
  }
  std::vector<int64_t> used(actions.size());
  int64_t now = 0;
  for (size_t i = 0; i < actions.size(); ++i)
    used[i] = now += change[i];
  return used;
}

double ScheduleFacts::bubble() const {
  double all = 0;
  for (double time : busy)
    all += time;
  const double total = makespan * static_cast<double>(busy.size());
  return total > 0 ? (total - all) / total : 0;
}

ScheduleFacts factsOf(const Table &table, const pipe::Timeline &timeline) {
  ScheduleFacts facts;
  facts.makespan = timeline.makespan();
  for (size_t rank = 0; rank < table.ranks.size(); ++rank) {
    double busy = 0;
    for (const auto &span : timeline.ranks[rank])
      busy += span.end - span.start;
    facts.busy.push_back(busy);
    int64_t most = 0;
    for (int64_t used : slotsInUse(table, static_cast<int64_t>(rank)))
      most = std::max(most, used);
    facts.inFlight.push_back(most);
  }
  return facts;
}

} // namespace cleave

//===- Build.cpp - From an order to a table --------------------------------===//

#include "cleave/Schedule/Schedule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <set>

using namespace llvm;
namespace cleave {

using pipe::Action;
using pipe::ActionKind;
using pipe::Channel;
using pipe::Table;

namespace {
/// Puts transfers into an order and gives out slots.
class TableBuilder {
public:
  TableBuilder(const ComputeOrder &order, ArrayRef<int64_t> rankOfStage, int64_t microBatches)
      : order(order) {
    table.rankOfStage.assign(rankOfStage.begin(), rankOfStage.end());
    table.microBatches = microBatches;
    table.ranks.resize(order.size());
  }

  Table build() {
    for (auto [rank, actions] : llvm::enumerate(order))
      for (const Action &action : actions)
        if (auto send = sendBehind(action))
          sends[channelOf(*send, static_cast<int64_t>(rank))].push_back(*send);
    for (size_t rank = 0; rank < order.size(); ++rank) {
      addTransfersOf(static_cast<int64_t>(rank));
      giveSlots(static_cast<int64_t>(rank));
    }
    return std::move(table);
  }

private:
  bool areApart(int64_t stage, int64_t other) const {
    return other >= 0 && other < table.stages() &&
           table.rankOfStage[stage] != table.rankOfStage[other];
  }

  std::optional<Action> sendBehind(const Action &action) const {
    const int64_t s = action.stage;
    if (action.kind == ActionKind::Forward && areApart(s, s + 1))
      return Action{ActionKind::SendActivation, s + 1, action.micro, 0, table.rankOfStage[s + 1]};
    if (action.kind == ActionKind::Backward && areApart(s, s - 1))
      return Action{ActionKind::SendGradient, s, action.micro, 0, table.rankOfStage[s - 1]};
    return std::nullopt;
  }

  std::optional<Action> receiveBefore(const Action &action) const {
    const int64_t s = action.stage;
    if (action.kind == ActionKind::Forward && areApart(s, s - 1))
      return Action{ActionKind::ReceiveActivation, s, action.micro, 0, table.rankOfStage[s - 1]};
    if (action.kind == ActionKind::Backward && areApart(s, s + 1))
      return Action{ActionKind::ReceiveGradient, s + 1, action.micro, 0, table.rankOfStage[s + 1]};
    return std::nullopt;
  }

  void addTransfersOf(int64_t rank) {
    std::vector<Action> &out = table.ranks[rank].actions;
    std::map<Channel, size_t> received;
    std::set<std::tuple<int64_t, int64_t, bool>> here;
    for (const Action &action : order[rank]) {
      if (auto receive = receiveBefore(action)) {
        const Channel channel = channelOf(*receive, rank);
        const auto &queue = sends[channel];
        size_t &next = received[channel];
        while (!here.contains({receive->stage, receive->micro, receive->isOfGradient()})) {
          const Action &sent = queue[next++];
          here.insert({sent.stage, sent.micro, sent.isOfGradient()});
          out.push_back({receive->kind, sent.stage, sent.micro, 0, receive->peer});
        }
      }
      out.push_back(action);
      if (auto send = sendBehind(action))
        out.push_back(*send);
    }
  }

  /// The stage and micro-batch whose slot `action` is the last so far to need: its own,
  /// and that of the stage behind it on the same rank, whose gradient it reads.
  void forEachUse(int64_t rank, const Action &action,
                  function_ref<void(int64_t, int64_t)> use) const {
    use(action.ownStage(), action.micro);
    const int64_t next = action.stage + 1;
    if (action.kind == ActionKind::Backward && next < table.stages() &&
        table.rankOfStage[next] == rank)
      use(next, action.micro);
  }

  void giveSlots(int64_t rank) {
    std::vector<Action> &actions = table.ranks[rank].actions;
    std::map<std::pair<int64_t, int64_t>, size_t> last;
    for (auto [i, action] : llvm::enumerate(actions))
      forEachUse(rank, action,
                 [&, i = i](int64_t stage, int64_t micro) { last[{stage, micro}] = i; });
    std::map<std::pair<int64_t, int64_t>, int64_t> slotOf;
    std::set<int64_t> free;
    int64_t slots = 0;
    for (auto [i, action] : llvm::enumerate(actions)) {
      auto [mine, fresh] = slotOf.try_emplace({action.ownStage(), action.micro}, 0);
      if (fresh && free.empty())
        free.insert(slots++);
      if (fresh)
        mine->second = free.extract(free.begin()).value();
      action.slot = mine->second;
      forEachUse(rank, action, [&, i = i](int64_t stage, int64_t micro) {
        if (last[{stage, micro}] == i)
          free.insert(slotOf[{stage, micro}]);
      });
    }
    table.ranks[rank].slots = std::max<int64_t>(slots, 1);
  }

  const ComputeOrder &order;
  Table table;
  std::map<Channel, std::vector<Action>> sends;
};
} // namespace

int64_t leastMicroBatch(int64_t sequences, int64_t stages) {
  const int64_t least = divideCeil(sequences, std::max<int64_t>(kMostCells / stages, 1));
  for (int64_t micro = least; micro < least + kMostCells; ++micro)
    if (sequences % micro == 0)
      return micro;
  return sequences;
}

Table addTransfers(const ComputeOrder &order, ArrayRef<int64_t> rankOfStage, int64_t microBatches) {
  return TableBuilder(order, rankOfStage, microBatches).build();
}

Table makeTable(const Schedule &schedule, const PipelineShape &shape) {
  SmallVector<int64_t> rankOfStage;
  for (int64_t stage = 0; stage < shape.stages; ++stage)
    rankOfStage.push_back(stage % shape.ranks);
  Table table = addTransfers(schedule.order(shape), rankOfStage, shape.microBatches);
  const pipe::Times times = pipe::equalTimes(table.hasWeightGradients());
  const int64_t most = std::max<int64_t>(shape.microBatches * shape.stages, 1);
  table.buffers = most;
  const double best = playOut(table, times).makespan();
  for (table.buffers = 1; table.buffers < most; ++table.buffers)
    if (pipe::Timeline t = playOut(table, times); t.finished && t.makespan() <= best)
      break;
  return table;
}

} // namespace cleave

//===- Check.cpp - Is a pipeline's table right? ----------------------------===//
//
// The numbers in comments are those of the rules in the description of
// `pipe.schedule`.
//
//===----------------------------------------------------------------------===//

#include "dialects/Pipe/Pipe.h"
#include "dialects/Pipe/Timeline.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <set>

using namespace mlir;
namespace cleave::pipe {

namespace {
/// Where a rank's list has the actions for one stage and micro-batch; -1: nowhere.
struct Places {
  std::array<int64_t, 7> at{-1, -1, -1, -1, -1, -1, -1};

  int64_t &operator[](ActionKind kind) { return at[static_cast<size_t>(kind)]; }
  int64_t operator[](ActionKind kind) const { return at[static_cast<size_t>(kind)]; }
  int64_t last() const { return *std::max_element(at.begin(), at.end()); }
};

/// Checks the list of one rank against what its stages must do.
class RankChecker {
public:
  RankChecker(RankOp op, const Table &table, bool weightGradients)
      : op(op), table(table), rank(static_cast<int64_t>(op.getIndex())),
        actions(op.getActions().getActions()), weightGradients(weightGradients) {}

  LogicalResult run() {
    for (auto [i, action] : llvm::enumerate(actions))
      if (failed(place(action, static_cast<int64_t>(i))))
        return failure();
    if (failed(checkComplete()))
      return failure();
    for (const auto &[key, places] : all)
      if (failed(checkTransfers(key.first, key.second, places)) ||
          failed(checkOrder(key.first, key.second, places)))
        return failure();
    return checkSlots();
  }

private:
  bool owns(int64_t stage) const {
    return stage >= 0 && stage < table.stages() && table.rankOfStage[stage] == rank;
  }
  bool isElsewhere(int64_t stage) const {
    return stage >= 0 && stage < table.stages() && table.rankOfStage[stage] != rank;
  }

  /// Notes an action whose numbers make sense.
  LogicalResult place(const Action &action, int64_t at) {
    const int64_t first = action.isComputation() ? 0 : 1;
    if (action.stage < first || action.stage >= table.stages())
      return op.emitOpError() << "has '" << toString(action) << "'; stages that "
                              << (first ? "an activation enters are 1 to " : "compute are 0 to ")
                              << table.stages() - 1;
    if (action.micro >= table.microBatches)
      return op.emitOpError() << "has '" << toString(action) << "'; micro-batches are 0 to "
                              << table.microBatches - 1;
    if (action.slot < 0 || action.slot >= static_cast<int64_t>(op.getSlots()))
      return op.emitOpError() << "has '" << toString(action) << "'; its slots are 0 to "
                              << op.getSlots() - 1;
    if (!owns(action.ownStage()))
      return op.emitOpError() << "has '" << toString(action) << "', but stage " << action.ownStage()
                              << " is on rank " << table.rankOfStage[action.ownStage()];
    if (!action.isComputation() &&
        (action.peer != table.rankOfStage[action.peerStage()] || action.peer == rank))
      return op.emitOpError() << "has '" << toString(action) << "', but stage "
                              << action.peerStage() << " is on rank "
                              << table.rankOfStage[action.peerStage()];
    int64_t &place = all[{action.ownStage(), action.micro}][action.kind];
    if (place >= 0)
      return op.emitOpError() << "has '" << toString(action) << "' twice";
    place = at;
    return success();
  }

  LogicalResult missing(char letter, int64_t stage, int64_t micro) {
    return op.emitOpError() << "lacks '" << letter << stage << "." << micro << "'";
  }

  /// Rule 2. What is there is right, so it is enough to find one that is not.
  LogicalResult checkComplete() {
    for (int64_t stage = 0; stage < table.stages(); ++stage)
      for (int64_t micro = 0; owns(stage) && micro < table.microBatches; ++micro) {
        auto it = all.find({stage, micro});
        if (it == all.end() || it->second[ActionKind::Forward] < 0)
          return missing('F', stage, micro);
        if (it->second[ActionKind::Backward] < 0)
          return missing('B', stage, micro);
        if (weightGradients && it->second[ActionKind::WeightGradient] < 0)
          return missing('W', stage, micro);
      }
    return success();
  }

  /// Rule 4.
  LogicalResult checkTransfers(int64_t stage, int64_t micro, const Places &places) {
    const std::tuple<ActionKind, int64_t, int64_t> needs[] = {
        {ActionKind::ReceiveActivation, stage - 1, stage},
        {ActionKind::SendActivation, stage + 1, stage + 1},
        {ActionKind::ReceiveGradient, stage + 1, stage + 1},
        {ActionKind::SendGradient, stage - 1, stage}};
    for (auto [kind, other, entered] : needs)
      if (isElsewhere(other) && places[kind] < 0)
        return op.emitOpError() << "lacks '"
                                << toString({kind, entered, micro,
                                             actions[places[ActionKind::Forward]].slot,
                                             table.rankOfStage[other]})
                                << "'";
    return success();
  }

  LogicalResult inOrder(int64_t before, int64_t after) {
    if (before < 0 || after < 0 || before < after)
      return success();
    return op.emitOpError() << "does '" << toString(actions[after]) << "' before '"
                            << toString(actions[before]) << "', on which it depends";
  }

  /// Rule 3.
  LogicalResult checkOrder(int64_t stage, int64_t micro, const Places &places) {
    const int64_t forward = places[ActionKind::Forward], backward = places[ActionKind::Backward];
    const std::pair<int64_t, int64_t> pairs[] = {{places[ActionKind::ReceiveActivation], forward},
                                                 {forward, places[ActionKind::SendActivation]},
                                                 {forward, backward},
                                                 {places[ActionKind::ReceiveGradient], backward},
                                                 {backward, places[ActionKind::SendGradient]},
                                                 {backward, places[ActionKind::WeightGradient]}};
    for (auto [before, after] : pairs)
      if (failed(inOrder(before, after)))
        return failure();
    if (!owns(stage - 1))
      return success();
    const Places &earlier = all.at({stage - 1, micro});
    return success(succeeded(inOrder(earlier[ActionKind::Forward], forward)) &&
                   succeeded(inOrder(backward, earlier[ActionKind::Backward])));
  }

  /// The last action that reads what (stage, micro) keeps.
  int64_t lastUse(int64_t stage, int64_t micro) const {
    int64_t last = all.at({stage, micro}).last();
    if (owns(stage - 1))
      last = std::max(last, all.at({stage - 1, micro})[ActionKind::Backward]);
    return last;
  }

  /// Rule 5.
  LogicalResult checkSlots() {
    std::map<std::pair<int64_t, int64_t>, int64_t> slotOf;
    std::map<int64_t, std::pair<int64_t, int64_t>> holders;
    for (auto [i, action] : llvm::enumerate(actions)) {
      const std::pair key{action.ownStage(), action.micro};
      auto [mine, fresh] = slotOf.try_emplace(key, action.slot);
      if (mine->second != action.slot)
        return op.emitOpError() << "has '" << toString(action) << "', but keeps micro-batch "
                                << action.micro << " of stage " << action.ownStage() << " in slot "
                                << mine->second;
      auto [holder, free] = holders.try_emplace(action.slot, key);
      if (free || holder->second == key)
        continue;
      const int64_t last = lastUse(holder->second.first, holder->second.second);
      if (last > static_cast<int64_t>(i))
        return op.emitOpError() << "takes slot " << action.slot << " for '" << toString(action)
                                << "' while '" << toString(actions[last])
                                << "' still needs what is there";
      holder->second = key;
    }
    return success();
  }

  RankOp op;
  const Table &table;
  int64_t rank;
  ArrayRef<Action> actions;
  bool weightGradients;
  std::map<std::pair<int64_t, int64_t>, Places> all;
};
} // namespace

/// Rule 1, and that both are listed in order.
static LogicalResult checkParts(ScheduleOp schedule) {
  int64_t stages = 0, ranks = 0;
  std::set<int64_t> used;
  for (Operation &op : schedule.getBody().front()) {
    auto stage = dyn_cast<StageOp>(op);
    auto rank = dyn_cast<RankOp>(op);
    if (!stage && !rank)
      return op.emitOpError("is no part of a schedule");
    int64_t &next = stage ? stages : ranks;
    if (static_cast<int64_t>(stage ? stage.getIndex() : rank.getIndex()) != next)
      return op.emitOpError() << "is out of order: number " << next << " is next";
    ++next;
    if (stage)
      used.insert(static_cast<int64_t>(stage.getRank()));
  }
  if (stages == 0)
    return schedule.emitOpError("has no stage");
  for (auto stage : schedule.getOps<StageOp>())
    if (static_cast<int64_t>(stage.getRank()) >= ranks)
      return stage.emitOpError() << "is on rank " << stage.getRank() << ", which is not there";
  for (auto rank : schedule.getOps<RankOp>())
    if (!used.contains(static_cast<int64_t>(rank.getIndex())))
      return rank.emitOpError("has no stage");
  return success();
}

/// Rule 6.
static LogicalResult checkChannels(ScheduleOp schedule, const Table &table) {
  std::map<Channel, std::pair<std::vector<Action>, std::vector<Action>>> channels;
  for (auto [rank, list] : llvm::enumerate(table.ranks))
    for (const Action &action : list.actions)
      if (!action.isComputation()) {
        auto &[sent, received] = channels[channelOf(action, static_cast<int64_t>(rank))];
        (action.isSend() ? sent : received).push_back(action);
      }
  auto ranks = llvm::to_vector(schedule.getOps<RankOp>());
  for (auto &[channel, both] : channels)
    for (auto [sent, received] : llvm::zip(both.first, both.second))
      if (sent.stage != received.stage || sent.micro != received.micro) {
        InFlightDiagnostic error = ranks[channel.to].emitOpError()
                                   << "expects '" << toString(received) << "' where rank "
                                   << channel.from << " sends another value";
        error.attachNote(ranks[channel.from].getLoc()) << "it does '" << toString(sent) << "'";
        return error;
      }
  return success();
}

/// Rule 7.
static LogicalResult checkProgress(ScheduleOp schedule, const Table &table) {
  const Timeline timeline = playOut(table, Times());
  if (timeline.finished)
    return success();
  InFlightDiagnostic error = schedule.emitOpError()
                             << "never ends with channels of " << table.buffers << " values";
  for (auto [op, spans] : llvm::zip(schedule.getOps<RankOp>(), timeline.ranks))
    if (ArrayRef<Action> actions = op.getActions().getActions(); spans.size() < actions.size())
      error.attachNote(op.getLoc())
          << "rank " << op.getIndex() << " waits at '" << toString(actions[spans.size()]) << "'";
  return error;
}

LogicalResult ScheduleOp::verifyRegions() {
  if (failed(checkParts(*this)))
    return failure();
  const Table table = getTable();
  for (auto rank : getOps<RankOp>())
    if (failed(RankChecker(rank, table, table.hasWeightGradients()).run()))
      return failure();
  return success(succeeded(checkChannels(*this, table)) && succeeded(checkProgress(*this, table)));
}

} // namespace cleave::pipe

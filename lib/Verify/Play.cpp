//===- Play.cpp - A pipeline's table, played -------------------------------===//

#include "lib/Verify/Play.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <map>

using namespace mlir;
namespace cleave {

/// What a micro-batch has in a stage, by name.
using Slot = std::map<std::string, RankTensors>;

/// Runs an entry on what `slot` and `batch` have; its results go to `slot`.
static rt::Status compute(Part &part, const std::string &entry, int64_t micro, BatchSource batch,
                          Slot &slot) {
  auto function = part.module.lookupSymbol<func::FuncOp>(entry);
  if (!function)
    return rt::internalError("a stage has no entry @" + entry);
  std::vector<RankTensors> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto name = function.getArgAttrOfType<StringAttr>(i, "nn.name").str();
    if (auto it = slot.find(name); it != slot.end())
      arguments.push_back(it->second);
    else
      arguments.push_back(part.cutFor(entry, i, batch(name, micro)));
  }
  part.micro = micro;
  CLEAVE_RT_ASSIGN_OR_RETURN(auto results, part.call(entry, arguments));
  for (auto [i, value] : llvm::enumerate(results))
    slot[function.getResultAttrOfType<StringAttr>(i, "nn.name").str()] = std::move(value);
  return rt::Status::success();
}

/// What is called `from` in `slot`, as the neighbour calls it.
static Slot messageOf(const Slot &slot, StringRef from, StringRef to) {
  Slot message;
  for (const auto &[name, value] : slot)
    if (StringRef(name).split('.').first == from)
      message[(to + "." + StringRef(name).split('.').second).str()] = value;
  return message;
}

namespace {
/// A step on its way through the stages.
class Player {
public:
  Player(const pipe::Table &table, std::vector<std::unique_ptr<Part>> &parts, BatchSource batch)
      : table(table), parts(parts), batch(batch), slots(parts.size()), next(parts.size(), 0) {}

  rt::Status run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < parts.size(); ++rank)
        while (failure.ok() && next[rank] < table.ranks[rank].actions.size() &&
               act(rank, table.ranks[rank].actions[next[rank]])) {
          ++next[rank];
          moved = true;
        }
    }
    CLEAVE_RT_RETURN_IF_ERROR(failure);
    for (size_t rank = 0; rank < parts.size(); ++rank)
      if (next[rank] < table.ranks[rank].actions.size())
        return rt::internalError("the schedule of the pipeline stands still");
    return rt::Status::success();
  }

private:
  /// The entry of a stage's way back, or of the gradients of its weights; the last one of a
  /// step may have one of its own.
  std::string wayBack(size_t rank, const pipe::Action &action) const {
    const ArrayRef<pipe::Action> behind =
        ArrayRef(table.ranks[rank].actions).drop_front(next[rank] + 1);
    const bool isWeights = action.kind == pipe::ActionKind::WeightGradient;
    const bool isLast = isWeights == table.hasWeightGradients() &&
                        llvm::none_of(behind, [&](const pipe::Action &other) {
                          return other.kind == action.kind && other.ownStage() == action.ownStage();
                        });
    const std::string last = "last." + std::to_string(action.ownStage());
    if (isLast && parts[rank]->module.lookupSymbol(last))
      return "last";
    return isWeights ? "weights" : "backward";
  }

  /// False where it has to wait, or where `failure` says that it cannot be done.
  bool act(size_t rank, const pipe::Action &action) {
    Slot &slot = slots[rank][action.slot];
    const std::string number = "." + std::to_string(action.ownStage());
    switch (action.kind) {
    case pipe::ActionKind::Forward:
      failure = compute(*parts[rank], "forward" + number, action.micro, batch, slot);
      return failure.ok();
    case pipe::ActionKind::Backward:
    case pipe::ActionKind::WeightGradient:
      failure = compute(*parts[rank], wayBack(rank, action) + number, action.micro, batch, slot);
      return failure.ok();
    case pipe::ActionKind::SendActivation:
      send(rank, action, slot, "output", "input");
      return true;
    case pipe::ActionKind::SendGradient:
      send(rank, action, slot, "input_gradient", "output_gradient");
      return true;
    default:
      return receive(rank, action, slot);
    }
  }

  void send(size_t rank, const pipe::Action &action, Slot &slot, StringRef from, StringRef to) {
    channels[pipe::channelOf(action, static_cast<int64_t>(rank))].push_back(
        messageOf(slot, from, to));
  }

  bool receive(size_t rank, const pipe::Action &action, Slot &slot) {
    auto &channel = channels[pipe::channelOf(action, static_cast<int64_t>(rank))];
    if (channel.empty())
      return false;
    for (auto &[name, value] : channel.front())
      slot[name] = std::move(value);
    channel.erase(channel.begin());
    return true;
  }

  const pipe::Table &table;
  std::vector<std::unique_ptr<Part>> &parts;
  BatchSource batch;
  rt::Status failure;
  std::vector<std::map<int64_t, Slot>> slots;
  std::vector<size_t> next;
  std::map<pipe::Channel, std::vector<Slot>> channels;
};
} // namespace

rt::Status playSchedule(const pipe::Table &table, std::vector<std::unique_ptr<Part>> &parts,
                        BatchSource batch) {
  return Player(table, parts, batch).run();
}

rt::Status playSurvey(std::vector<std::unique_ptr<Part>> &parts, int64_t micro, BatchSource batch) {
  Slot slot;
  for (size_t stage = 0;; ++stage) {
    Part &part = *parts[stage % parts.size()];
    const std::string entry = "survey." + std::to_string(stage);
    if (!part.module.lookupSymbol(entry))
      return rt::Status::success();
    CLEAVE_RT_RETURN_IF_ERROR(compute(part, entry, micro, batch, slot));
    slot = messageOf(slot, "output", "input");
  }
}

} // namespace cleave

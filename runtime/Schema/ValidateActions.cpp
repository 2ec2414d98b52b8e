// The lists of actions of a pipeline: complete, in order, in slots of their own,
// alike at both ends of each channel, and not stuck. Which schedule they come from
// does not matter here.
#include "runtime/Schema/ValidateCommands.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace cleave::rt {
namespace {

using Kind = PipelineAction::Kind;

Error broken(std::string message) { return brokenImage("image.pipeline", std::move(message)); }

/// "receive_gradient of stage 3, micro-batch 2".
std::string describe(const Pipeline &pipeline, const PipelineAction &action) {
  return fmt::format("{} of stage {}, micro-batch {}", nameOf(action.kind),
                     pipeline.stages[action.stage].number, action.microBatch);
}

/// The stage at the other end of a transfer.
int64_t otherStage(const PipelineAction &action, int64_t stage) {
  return action.kind == Kind::SendActivation || action.kind == Kind::ReceiveGradient ? stage + 1
                                                                                     : stage - 1;
}

/// The list of one program.
class ListChecker {
public:
  /// `programOf`: where each stage of the model is.
  ListChecker(const Program &program, const std::vector<int64_t> &programOf)
      : pipeline(*program.pipeline), microBatches(program.batch.microBatches),
        slots(program.slots()), programOf(programOf),
        owner(fmt::format("index {} of the pipeline", pipeline.index)),
        places(pipeline.stages.size() * static_cast<size_t>(microBatches)) {}

  Status run() {
    for (size_t i = 0; i < pipeline.actions.size(); ++i)
      CLEAVE_RT_RETURN_IF_ERROR(place(pipeline.actions[i], static_cast<int32_t>(i)));
    for (size_t stage = 0; stage < pipeline.stages.size(); ++stage)
      for (int64_t micro = 0; micro < microBatches; ++micro) {
        CLEAVE_RT_RETURN_IF_ERROR(checkComplete(stage, micro));
        CLEAVE_RT_RETURN_IF_ERROR(checkOrder(stage, micro));
      }
    return checkSlots();
  }

private:
  /// Where the list has the actions of one stage and micro-batch; -1: nowhere.
  struct Places {
    std::array<int32_t, PipelineAction::kinds> at;
    Places() { at.fill(-1); }
    int32_t operator[](Kind kind) const { return at[static_cast<size_t>(kind)]; }
    int32_t last() const { return *std::ranges::max_element(at); }
  };

  Places &placesOf(const PipelineAction &action) {
    return places[static_cast<size_t>(action.stage * microBatches + action.microBatch)];
  }

  Status place(const PipelineAction &action, int32_t at) {
    if (action.stage < 0 || static_cast<size_t>(action.stage) >= pipeline.stages.size())
      return broken(fmt::format("action {} of {} names stage {} of {}", at, owner, action.stage,
                                pipeline.stages.size()));
    if (action.microBatch < 0 || action.microBatch >= microBatches)
      return broken(fmt::format("action {} of {} names micro-batch {} of {}", at, owner,
                                action.microBatch, microBatches));
    if (action.slot < 0 || action.slot >= slots)
      return broken(
          fmt::format("action {} of {} names slot {} of {}", at, owner, action.slot, slots));
    if (action.isTransfer())
      CLEAVE_RT_RETURN_IF_ERROR(checkPeer(action));
    int32_t &place = placesOf(action).at[static_cast<size_t>(action.kind)];
    if (place >= 0)
      return broken(fmt::format("{} does {} twice", owner, describe(pipeline, action)));
    place = at;
    return {};
  }

  Status checkPeer(const PipelineAction &action) const {
    const int64_t other = otherStage(action, pipeline.stages[action.stage].number);
    if (other < 0 || static_cast<size_t>(other) >= programOf.size())
      return broken(fmt::format("{} does {}, beyond which there is no stage", owner,
                                describe(pipeline, action)));
    if (programOf[other] != action.peer)
      return broken(fmt::format("{} does {} with index {}, but stage {} is on index {}", owner,
                                describe(pipeline, action), action.peer, other, programOf[other]));
    return {};
  }

  Status checkComplete(size_t stage, int64_t micro) const {
    const int64_t number = pipeline.stages[stage].number;
    const bool isFirst = number == 0;
    const bool isLast = number + 1 == static_cast<int64_t>(programOf.size());
    const std::pair<Kind, bool> needs[] = {
        {Kind::Forward, true},
        {Kind::Backward, true},
        {Kind::Weights, !pipeline.stages[stage].entry(StageEntry::Weights).empty()},
        {Kind::ReceiveActivation, !isFirst},
        {Kind::SendGradient, !isFirst},
        {Kind::SendActivation, !isLast},
        {Kind::ReceiveGradient, !isLast}};
    for (auto [kind, isNeeded] : needs)
      if (isNeeded && at(stage, micro)[kind] < 0)
        return broken(fmt::format("{} lacks {} of stage {}, micro-batch {}", owner, nameOf(kind),
                                  number, micro));
    return {};
  }

  Status checkOrder(size_t stage, int64_t micro) const {
    const Places &mine = at(stage, micro);
    constexpr std::pair<Kind, Kind> orders[] = {
        {Kind::ReceiveActivation, Kind::Forward}, {Kind::Forward, Kind::SendActivation},
        {Kind::Forward, Kind::Backward},          {Kind::ReceiveGradient, Kind::Backward},
        {Kind::Backward, Kind::SendGradient},     {Kind::Backward, Kind::Weights}};
    for (auto [before, after] : orders)
      if (mine[before] >= 0 && mine[after] >= 0 && mine[after] < mine[before])
        return broken(fmt::format("{} does {} before {}, which it needs", owner,
                                  describe(pipeline, pipeline.actions[mine[after]]),
                                  nameOf(before)));
    return {};
  }

  /// A slot is of one stage and micro-batch from its first action to its last.
  Status checkSlots() {
    std::vector<const PipelineAction *> holders(static_cast<size_t>(slots), nullptr);
    for (size_t i = 0; i < pipeline.actions.size(); ++i) {
      const PipelineAction &action = pipeline.actions[i];
      const Places &mine = placesOf(action);
      for (int32_t other : mine.at)
        if (other >= 0 && pipeline.actions[other].slot != action.slot)
          return broken(fmt::format(
              "{} does {} in slot {} and {} in slot {}", owner, describe(pipeline, action),
              action.slot, nameOf(pipeline.actions[other].kind), pipeline.actions[other].slot));
      const PipelineAction *&holder = holders[action.slot];
      if (holder && (holder->stage != action.stage || holder->microBatch != action.microBatch))
        if (const int32_t last = placesOf(*holder).last(); last > static_cast<int32_t>(i))
          return broken(fmt::format("{} takes slot {} for {} while {} still needs it", owner,
                                    action.slot, describe(pipeline, action),
                                    describe(pipeline, pipeline.actions[last])));
      holder = &action;
    }
    return {};
  }

  const Places &at(size_t stage, int64_t micro) const {
    return places[stage * static_cast<size_t>(microBatches) + static_cast<size_t>(micro)];
  }

  const Pipeline &pipeline;
  const int64_t microBatches, slots;
  const std::vector<int64_t> &programOf;
  const std::string owner;
  std::vector<Places> places;
};

/// One direction of one kind of transfers between two programs.
struct ChannelKey {
  int64_t from, to;
  bool ofGradients;
  auto operator<=>(const ChannelKey &) const = default;
};

ChannelKey channelOf(const PipelineAction &transfer, int64_t index) {
  const int64_t peer = transfer.peer;
  return transfer.isSend() ? ChannelKey{index, peer, transfer.isOfGradient()}
                           : ChannelKey{peer, index, transfer.isOfGradient()};
}

/// Both ends of each channel have the same values in one order.
Status checkChannels(const Image &image) {
  using Ends = std::array<std::vector<const PipelineAction *>, 2>;
  std::map<ChannelKey, Ends> channels;
  for (const Program &program : image.programs)
    for (const PipelineAction &action : program.pipeline->actions)
      if (action.isTransfer())
        channels[channelOf(action, program.pipeline->index)][action.isSend() ? 0 : 1].push_back(
            &action);
  for (const auto &[key, ends] : channels) {
    const Pipeline &from = *image.programs[key.from].pipeline,
                   &to = *image.programs[key.to].pipeline;
    // Complete lists have as many sends as receives.
    for (size_t i = 0; i < ends[0].size(); ++i) {
      const PipelineAction &sent = *ends[0][i], &received = *ends[1][i];
      if (otherStage(sent, from.stages[sent.stage].number) != to.stages[received.stage].number ||
          sent.microBatch != received.microBatch)
        return broken(fmt::format("index {} sends {} of stage {}, micro-batch {}, where index {} "
                                  "does {}",
                                  key.from, key.ofGradients ? "the gradient" : "the activation",
                                  from.stages[sent.stage].number, sent.microBatch, key.to,
                                  describe(to, received)));
    }
  }
  return {};
}

/// Plays the lists out; a rank goes on until it must wait.
Status checkProgress(const Image &image) {
  const int64_t buffers = image.first().pipeline->buffers;
  std::map<ChannelKey, int64_t> held;
  std::vector<size_t> next(image.programs.size(), 0), open;
  for (size_t i = 0; i < image.programs.size(); ++i)
    open.push_back(i);
  while (!open.empty()) {
    const size_t self = open.back();
    open.pop_back();
    const Pipeline &pipeline = *image.programs[self].pipeline;
    for (size_t &at = next[self]; at < pipeline.actions.size(); ++at) {
      const PipelineAction &action = pipeline.actions[at];
      if (!action.isTransfer())
        continue;
      int64_t &messages = held[channelOf(action, pipeline.index)];
      if (messages == (action.isSend() ? buffers : 0))
        break;
      messages += action.isSend() ? 1 : -1;
      open.push_back(static_cast<size_t>(action.peer));
    }
  }
  std::string waits;
  for (size_t i = 0; i < next.size(); ++i) {
    const Pipeline &pipeline = *image.programs[i].pipeline;
    if (next[i] < pipeline.actions.size())
      waits += fmt::format("{}index {} waits at {}", waits.empty() ? "" : ", ", i,
                           describe(pipeline, pipeline.actions[next[i]]));
  }
  if (waits.empty())
    return {};
  return broken(
      fmt::format("the pipeline never ends with channels of {} messages: {}", buffers, waits));
}

} // namespace

Status validateActions(const Image &image) {
  std::vector<int64_t> programOf(static_cast<size_t>(image.stages()), 0);
  for (const Program &program : image.programs)
    for (const Stage &stage : program.pipeline->stages)
      programOf[static_cast<size_t>(stage.number)] = program.pipeline->index;
  for (const Program &program : image.programs)
    CLEAVE_RT_RETURN_IF_ERROR(ListChecker(program, programOf).run());
  CLEAVE_RT_RETURN_IF_ERROR(checkChannels(image));
  return checkProgress(image);
}

} // namespace cleave::rt

// Names and small sums of the program image.
#include "runtime/Schema/Program.h"

#include <fmt/format.h>

#include <algorithm>

namespace cleave::rt {

int64_t elementBytes(DataType type) {
  switch (type) {
  case DataType::BF16:
    return 2;
  case DataType::F32:
  case DataType::I32:
    return 4;
  case DataType::I64:
    return 8;
  }
  return 0;
}

const char *nameOf(DataType type) {
  switch (type) {
  case DataType::F32:
    return "f32";
  case DataType::BF16:
    return "bf16";
  case DataType::I32:
    return "i32";
  case DataType::I64:
    return "i64";
  }
  return "";
}

const char *nameOf(Slot slot) {
  switch (slot) {
  case Slot::Value:
    return "value";
  case Slot::Gradient:
    return "gradient";
  case Slot::Moment1:
    return "moment1";
  case Slot::Moment2:
    return "moment2";
  }
  return "";
}

const char *nameOf(EntryKind kind) {
  switch (kind) {
  case EntryKind::Begin:
    return "begin";
  case EntryKind::Count:
    return "count";
  case EntryKind::Prepare:
    return "prepare";
  case EntryKind::MicroBatch:
    return "microbatch";
  case EntryKind::Update:
    return "update";
  case EntryKind::Evaluate:
    return "evaluate";
  case EntryKind::Survey:
    return "survey";
  case EntryKind::Last:
    return "last";
  }
  return "";
}

std::string StateEntry::fileName(int64_t index) const {
  std::string result = name;
  if (isSliced())
    result.replace(result.find("{}"), 2, std::to_string(index));
  return result;
}

const char *nameOf(const Command &command) {
  struct Name {
    const char *operator()(const KernelCommand &) const { return "kernel"; }
    const char *operator()(const MatmulCommand &) const { return "matmul"; }
    const char *operator()(const PickedMatmulCommand &) const { return "picked_matmul"; }
    const char *operator()(const PickedOuterCommand &) const { return "picked_outer"; }
    const char *operator()(const ZeroCommand &) const { return "zero"; }
    const char *operator()(const CopyCommand &) const { return "copy"; }
    const char *operator()(const AllReduceCommand &) const { return "all_reduce"; }
    const char *operator()(const AllGatherCommand &) const { return "all_gather"; }
    const char *operator()(const ReduceScatterCommand &) const { return "reduce_scatter"; }
    const char *operator()(const SliceCommand &) const { return "slice"; }
    const char *operator()(const AllToAllCommand &) const { return "all_to_all"; }
    const char *operator()(const BesideCommand &) const { return "beside"; }
    const char *operator()(const AwaitCommand &) const { return "await"; }
    const char *operator()(const RepeatCommand &) const { return "repeat"; }
  };
  return std::visit(Name{}, command.what);
}

std::optional<int32_t> groupOf(const Command &command) {
  if (const auto *reduce = std::get_if<AllReduceCommand>(&command.what))
    return reduce->group;
  if (const auto *gather = std::get_if<AllGatherCommand>(&command.what))
    return gather->group;
  if (const auto *scatter = std::get_if<ReduceScatterCommand>(&command.what))
    return scatter->group;
  if (const auto *exchange = std::get_if<AllToAllCommand>(&command.what))
    return exchange->group;
  if (const auto *bucket = std::get_if<BesideCommand>(&command.what))
    return bucket->exchanges.empty() ? std::nullopt : groupOf(bucket->exchanges.front());
  return std::nullopt;
}

const char *nameOf(StageEntry kind) {
  switch (kind) {
  case StageEntry::Forward:
    return "forward";
  case StageEntry::Backward:
    return "backward";
  case StageEntry::Weights:
    return "weights";
  case StageEntry::Evaluate:
    return "evaluate";
  case StageEntry::Survey:
    return "survey";
  case StageEntry::Last:
    return "last";
  }
  return "";
}

StageEntry Pipeline::entryOf(size_t index) const {
  const PipelineAction &action = actions[index];
  if (action.kind == PipelineAction::Kind::Forward)
    return StageEntry::Forward;
  const Stage &stage = stages[static_cast<size_t>(action.stage)];
  const bool isEnd =
      action.kind == PipelineAction::Kind::Weights || stage.entry(StageEntry::Weights).empty();
  const bool isLast =
      isEnd && std::none_of(actions.begin() + static_cast<std::ptrdiff_t>(index) + 1, actions.end(),
                            [&](const PipelineAction &other) {
                              return other.kind == action.kind && other.stage == action.stage;
                            });
  if (isLast && !stage.entry(StageEntry::Last).empty())
    return StageEntry::Last;
  return action.kind == PipelineAction::Kind::Backward ? StageEntry::Backward : StageEntry::Weights;
}

const char *nameOf(PipelineAction::Kind kind) {
  switch (kind) {
  case PipelineAction::Kind::Forward:
    return "forward";
  case PipelineAction::Kind::Backward:
    return "backward";
  case PipelineAction::Kind::Weights:
    return "weights";
  case PipelineAction::Kind::SendActivation:
    return "send_activation";
  case PipelineAction::Kind::SendGradient:
    return "send_gradient";
  case PipelineAction::Kind::ReceiveActivation:
    return "receive_activation";
  case PipelineAction::Kind::ReceiveGradient:
    return "receive_gradient";
  }
  return "";
}

int64_t Group::size(const Mesh &mesh) const {
  return members.empty() ? mesh.sizeOf(axes) : static_cast<int64_t>(members.size());
}

int64_t Group::indexOf(const Mesh &mesh, int64_t rank) const {
  const int64_t index = mesh.indexOf(rank, axes);
  if (members.empty())
    return index;
  const auto found = std::ranges::lower_bound(members, index);
  return found != members.end() && *found == index ? found - members.begin() : -1;
}

std::vector<int64_t> Group::ranksOf(const Mesh &mesh, int64_t rank) const {
  std::vector<int64_t> all = mesh.groupOf(rank, axes);
  if (members.empty())
    return all;
  std::vector<int64_t> ranks;
  for (int64_t member : members)
    ranks.push_back(all[static_cast<size_t>(member)]);
  return ranks;
}

int64_t Program::localSequence() const {
  return blockSize(batch.sequence, mesh.sizeOf(batch.sequenceAxes));
}

int64_t Program::slots() const {
  int64_t most = 1;
  for (const Segment &segment : segments)
    most = std::max(most, segment.copies);
  return most;
}

size_t Program::entryLists() const {
  return entryCount + (pipeline ? pipeline->stages.size() * stageEntryCount : 0);
}

const Stage *Program::stageOfEntry(size_t index) const {
  return index < entryCount ? nullptr : &pipeline->stages[(index - entryCount) / stageEntryCount];
}

const std::vector<Command> &Program::entryList(size_t index) const {
  const Stage *stage = stageOfEntry(index);
  return stage ? stage->entries[(index - entryCount) % stageEntryCount] : entries[index];
}

std::string Program::entryName(size_t index) const {
  const Stage *stage = stageOfEntry(index);
  if (!stage)
    return nameOf(static_cast<EntryKind>(index));
  return fmt::format("{} of stage {}",
                     nameOf(static_cast<StageEntry>((index - entryCount) % stageEntryCount)),
                     stage->number);
}

} // namespace cleave::rt

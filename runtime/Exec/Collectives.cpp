// Collective commands over communicators of contiguous f32 blocks.
#include "runtime/Exec/Collectives.h"

#include "runtime/Comm/Communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace cleave::rt {
namespace {

/// Whatever the elements are, blocks travel as words of 4 bytes.
std::span<float> words(std::byte *at, int64_t bytes) {
  return {reinterpret_cast<float *>(at), static_cast<size_t>(bytes / 4)};
}
std::span<const float> words(const std::byte *at, int64_t bytes) {
  return {reinterpret_cast<const float *>(at), static_cast<size_t>(bytes / 4)};
}

ReduceKind kindOf(ReductionKind kind) {
  return kind == ReductionKind::Max ? ReduceKind::Max : ReduceKind::Sum;
}

Error unsupported(const Command &command, const char *rule) {
  return userError("runtime.type_unsupported",
                   fmt::format("{}{}{} is beyond what the communicators here can do",
                               nameOf(command), command.label.empty() ? "" : " of ", command.label))
      .withRule(rule);
}

/// Bytes of staging a command needs.
struct Staging {
  int64_t send = 0;
  int64_t receive = 0;
};

/// What a command needs, or why it can't be run.
struct StagingOf {
  const Program &program;
  const Command &command;

  int64_t members(int32_t group) const { return program.groups[group].size(program.mesh); }

  template <typename T> StatusOr<Staging> operator()(const T &) const { return Staging{}; }

  StatusOr<Staging> operator()(const AllReduceCommand &reduce) const {
    if (members(reduce.group) > 1 && reduce.type != DataType::F32)
      return unsupported(command, "reductions between ranks are of f32");
    return Staging{};
  }
  StatusOr<Staging> operator()(const AllGatherCommand &gather) const {
    const CutLayout layout(gather.cut, members(gather.group), elementBytes(gather.type));
    if (layout.members > 1 && layout.blockBytes() % 4 != 0)
      return unsupported(command, "blocks are multiples of 4 bytes");
    return Staging{0, layout.members > 1 && !layout.isContiguous() ? layout.stagedBytes() : 0};
  }
  StatusOr<Staging> operator()(const ReduceScatterCommand &scatter) const {
    const CutLayout layout(scatter.cut, members(scatter.group), elementBytes(scatter.type));
    if (layout.members > 1 && scatter.type != DataType::F32)
      return unsupported(command, "reductions between ranks are of f32");
    return Staging{layout.members > 1 && !layout.isContiguous() ? layout.stagedBytes() : 0, 0};
  }
  StatusOr<Staging> operator()(const AllToAllCommand &exchange) const {
    const ExchangeLayout layout(exchange, members(exchange.group));
    if (layout.members > 1 && layout.messageBytes() % 4 != 0)
      return unsupported(command, "messages are multiples of 4 bytes");
    // A group of one only copies; see run.
    return layout.members > 1 ? Staging{layout.stagedBytes(), layout.stagedBytes()} : Staging{};
  }
  StatusOr<Staging> operator()(const BesideCommand &bucket) const {
    Staging all;
    for (const Command &exchange : bucket.exchanges) {
      CLEAVE_RT_ASSIGN_OR_RETURN(const Staging need,
                                 std::visit(StagingOf{program, exchange}, exchange.what));
      all.send += need.send;
      all.receive += need.receive;
    }
    return all;
  }
};

/// The parts of a message that buckets make of their exchanges, and what is left to do with
/// what it brings.
struct BucketMessage {
  std::byte *sendStage, *receiveStage;
  std::vector<MessagePart> parts;
  struct Unpacking {
    CutLayout layout;
    const std::byte *staged;
    std::byte *target;
  };
  std::vector<Unpacking> unpackings;

  void add(const AllReduceCommand &command, const std::byte *source, std::byte *target) {
    if (source != target)
      std::memcpy(target, source, static_cast<size_t>(command.source.bytes));
    parts.push_back({words(target, command.target.bytes), words(target, command.target.bytes)});
  }
  void add(const CutLayout &layout, const AllGatherCommand &, const std::byte *source,
           std::byte *target) {
    std::byte *whole = target;
    if (!layout.isContiguous()) {
      whole = receiveStage;
      receiveStage += layout.stagedBytes();
      unpackings.push_back({layout, whole, target});
    }
    parts.push_back({words(source, layout.blockBytes()), words(whole, layout.stagedBytes())});
  }
  Status add(const CutLayout &layout, const ReduceScatterCommand &, const std::byte *source,
             std::byte *target, ThreadPool &pool) {
    const std::byte *whole = source;
    if (!layout.isContiguous()) {
      CLEAVE_RT_RETURN_IF_ERROR(packBlocks(pool, layout, source, sendStage));
      whole = sendStage;
      sendStage += layout.stagedBytes();
    }
    parts.push_back({words(whole, layout.stagedBytes()), words(target, layout.blockBytes())});
    return {};
  }
};

} // namespace

StatusOr<std::unique_ptr<CollectiveRunner>>
CollectiveRunner::create(const Program &program, const EntryLists &commands, int64_t rank,
                         const RankMemory &memory, ThreadPool &pool,
                         std::vector<Communicator *> groups, bool isBeside) {
  std::unique_ptr<CollectiveRunner> runner(
      new CollectiveRunner(program, rank, memory, pool, std::move(groups)));
  Staging most;
  for (const std::vector<Command> &entry : commands)
    for (const Command &command : entry) {
      if (std::holds_alternative<BesideCommand>(command.what) != isBeside)
        continue;
      CLEAVE_RT_ASSIGN_OR_RETURN(const Staging need,
                                 std::visit(StagingOf{program, command}, command.what));
      most.send = std::max(most.send, need.send);
      most.receive = std::max(most.receive, need.receive);
    }
  CLEAVE_RT_ASSIGN_OR_RETURN(runner->sendStage,
                             ZeroedMemory::allocate(most.send, "staging of collectives"));
  CLEAVE_RT_ASSIGN_OR_RETURN(runner->receiveStage,
                             ZeroedMemory::allocate(most.receive, "staging of collectives"));
  return runner;
}

int64_t CollectiveRunner::membersOf(int32_t group) const {
  return program.groups[group].size(program.mesh);
}

int64_t CollectiveRunner::indexIn(int32_t group) const {
  return program.groups[group].indexOf(program.mesh, rank);
}

/// The communicator, told what it is used for.
Communicator &CollectiveRunner::group(int32_t index) const {
  groups[index]->setPurpose(purpose);
  return *groups[index];
}

Status CollectiveRunner::run(const Command &command) {
  purpose = command.label;
  return runAlone(command);
}

Status CollectiveRunner::run(const BesideCommand &bucket, std::string_view label) {
  purpose = label;
  // A group of one rank has no communicator.
  if (membersOf(*groupOf(bucket.exchanges.front())) == 1) {
    for (const Command &exchange : bucket.exchanges)
      CLEAVE_RT_RETURN_IF_ERROR(runAlone(exchange));
    return {};
  }
  BucketMessage message{sendStage.data(), receiveStage.data(), {}, {}};
  int32_t groupIndex = 0;
  auto kind = CollectiveKind::AllReduce;
  auto reduction = ReduceKind::Sum;
  for (const Command &exchange : bucket.exchanges) {
    if (const auto *reduce = std::get_if<AllReduceCommand>(&exchange.what)) {
      groupIndex = reduce->group;
      reduction = kindOf(reduce->kind);
      message.add(*reduce, memory.address(reduce->source), memory.address(reduce->target));
    } else if (const auto *gather = std::get_if<AllGatherCommand>(&exchange.what)) {
      groupIndex = gather->group;
      kind = CollectiveKind::AllGather;
      message.add({gather->cut, membersOf(gather->group), elementBytes(gather->type)}, *gather,
                  memory.address(gather->source), memory.address(gather->target));
    } else if (const auto *scatter = std::get_if<ReduceScatterCommand>(&exchange.what)) {
      groupIndex = scatter->group;
      kind = CollectiveKind::ReduceScatter;
      reduction = kindOf(scatter->kind);
      CLEAVE_RT_RETURN_IF_ERROR(message.add(
          {scatter->cut, membersOf(scatter->group), elementBytes(scatter->type)}, *scatter,
          memory.address(scatter->source), memory.address(scatter->target), pool));
    } else {
      return internalError(fmt::format("{} is no exchange of a bucket", nameOf(exchange)));
    }
  }
  CLEAVE_RT_RETURN_IF_ERROR(group(groupIndex).exchange(kind, reduction, message.parts));
  for (const BucketMessage::Unpacking &each : message.unpackings)
    CLEAVE_RT_RETURN_IF_ERROR(unpackGathered(pool, each.layout, each.staged, each.target));
  return {};
}

Status CollectiveRunner::runAlone(const Command &command) {
  if (const auto *reduce = std::get_if<AllReduceCommand>(&command.what))
    return runAllReduce(*reduce);
  if (const auto *gather = std::get_if<AllGatherCommand>(&command.what))
    return runAllGather(*gather);
  if (const auto *scatter = std::get_if<ReduceScatterCommand>(&command.what))
    return runReduceScatter(*scatter);
  if (const auto *slice = std::get_if<SliceCommand>(&command.what))
    return runSlice(*slice);
  if (const auto *exchange = std::get_if<AllToAllCommand>(&command.what))
    return runAllToAll(*exchange);
  return internalError(fmt::format("{} is no collective", nameOf(command)));
}

Status CollectiveRunner::runAllReduce(const AllReduceCommand &command) {
  const std::byte *source = memory.address(command.source);
  std::byte *target = memory.address(command.target);
  if (source != target)
    std::memcpy(target, source, static_cast<size_t>(command.source.bytes));
  if (membersOf(command.group) == 1)
    return {};
  return group(command.group).allReduce(words(target, command.target.bytes), kindOf(command.kind));
}

Status CollectiveRunner::runAllGather(const AllGatherCommand &command) {
  const CutLayout layout(command.cut, membersOf(command.group), elementBytes(command.type));
  const std::byte *source = memory.address(command.source);
  std::byte *target = memory.address(command.target);
  if (layout.members == 1) {
    copyBlock(layout, 0, source, target);
    return {};
  }
  Communicator &among = group(command.group);
  if (layout.isContiguous())
    return among.allGather(words(source, layout.blockBytes()), words(target, layout.stagedBytes()));
  std::byte *staged = receiveStage.data();
  CLEAVE_RT_RETURN_IF_ERROR(
      among.allGather(words(source, layout.blockBytes()), words(staged, layout.stagedBytes())));
  return unpackGathered(pool, layout, staged, target);
}

Status CollectiveRunner::runReduceScatter(const ReduceScatterCommand &command) {
  const CutLayout layout(command.cut, membersOf(command.group), elementBytes(command.type));
  const std::byte *source = memory.address(command.source);
  std::byte *target = memory.address(command.target);
  if (layout.members == 1) {
    copyBlock(layout, 0, source, target);
    return {};
  }
  const std::byte *send = source;
  if (!layout.isContiguous()) {
    CLEAVE_RT_RETURN_IF_ERROR(packBlocks(pool, layout, source, sendStage.data()));
    send = sendStage.data();
  }
  // Padding is packed as zeros on every rank and so stays zero for both
  // reductions.
  return group(command.group)
      .reduceScatter(words(send, layout.stagedBytes()), words(target, layout.blockBytes()),
                     kindOf(command.kind));
}

Status CollectiveRunner::runSlice(const SliceCommand &command) {
  const CutLayout layout(command.cut, membersOf(command.group), elementBytes(command.type));
  copyBlock(layout, indexIn(command.group), memory.address(command.source),
            memory.address(command.target));
  return {};
}

Status CollectiveRunner::runAllToAll(const AllToAllCommand &command) {
  const ExchangeLayout layout(command, membersOf(command.group));
  const std::byte *source = memory.address(command.source);
  std::byte *target = memory.address(command.target);
  if (layout.members == 1) {
    std::memcpy(target, source, static_cast<size_t>(command.source.bytes));
    return {};
  }
  CLEAVE_RT_RETURN_IF_ERROR(packMessages(pool, layout, source, sendStage.data()));
  CLEAVE_RT_RETURN_IF_ERROR(group(command.group)
                                .allToAll(words(sendStage.data(), layout.stagedBytes()),
                                          words(receiveStage.data(), layout.stagedBytes())));
  return unpackMessages(pool, layout, receiveStage.data(), target);
}

} // namespace cleave::rt

// Collectives on shared memory.
#include "runtime/Comm/Local/LocalGroup.h"

#include "runtime/Base/ThreadPool.h"
#include "runtime/Comm/Local/Reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace cleave::rt {

LocalGroup::LocalGroup(std::vector<int> members, std::chrono::nanoseconds spin)
    : LocalGroup(members, 0, members.size(), spin) {}

LocalGroup::LocalGroup(std::vector<int> members, size_t firstHere, size_t here,
                       std::chrono::nanoseconds spin)
    : firstHere(firstHere), memberRanks(std::move(members)), own(here, Own(here)),
      enter(here, spin), leave(here, spin) {}

LocalGroup::Outcome LocalGroup::perform(size_t self, std::span<const LocalCall> parts,
                                        Status &failure) {
  own[self].parts = parts;
  LocalMessage &message = enter.note<LocalMessage>(self);
  message.parts = parts;
  if (parts.size() == 1) {
    message.single = parts.front();
    message.parts = std::span(&message.single, 1);
  }
  if (!enter.arriveAndWait(self))
    return Outcome::Broken;
  // Every member compares the same calls and comes to the same result.
  failure = compareCalls(self);
  if (failure.ok())
    failure = work(self);
  // What lies between the two meetings returns, if with an error.
  return leave.arriveAndWait(self) ? Outcome::Done : Outcome::Broken;
}

static std::string describe(std::span<const LocalCall> parts) {
  size_t floats = 0;
  for (const LocalCall &call : parts)
    floats += call.count;
  return fmt::format("{} of {} floats (root {}){}", nameOf(parts.front().collective), floats,
                     parts.front().root,
                     parts.size() > 1 ? fmt::format(" in {} parts", parts.size()) : "");
}

Status LocalGroup::compareCalls(size_t self) const {
  const auto isLike = [](const LocalCall &a, const LocalCall &b) {
    return a.collective == b.collective && a.count == b.count && a.reduction == b.reduction &&
           a.root == b.root;
  };
  for (size_t r = 1; r < countHere(); ++r) {
    if (std::ranges::equal(partsOf(0, self), partsOf(r, self), isLike))
      continue;
    Error error = internalError(
        fmt::format("ranks {} and {} made calls that do not match: {} and {}", membersHere()[0],
                    membersHere()[r], describe(partsOf(0, self)), describe(partsOf(r, self))));
    error.kind = "comm.mismatch";
    return error;
  }
  return {};
}

Status LocalGroup::work(size_t self) {
  for (size_t part = 0; part < partCount(self); ++part)
    workOn(callsOf(part, self), self);
  return {};
}

void LocalGroup::workOn(LocalCalls calls, size_t self) {
  const size_t ranks = calls.size();
  const LocalCall &mine = calls[self];
  const size_t block = mine.count / ranks;
  switch (mine.collective) {
  case CollectiveKind::AllReduce:
    return allReduce(calls, self);
  case CollectiveKind::ReduceScatter:
    return reduceScatter(calls, self);
  case CollectiveKind::AllGather:
    for (size_t r = 0; r < ranks; ++r)
      copyFloats(mine.receive + r * block, calls[r].send, block);
    return;
  case CollectiveKind::AllToAll:
    for (size_t r = 0; r < ranks; ++r)
      copyFloats(mine.receive + r * block, calls[r].send + self * block, block);
    return;
  case CollectiveKind::Broadcast:
    return copyFloats(mine.receive, calls[static_cast<size_t>(mine.root)].send, mine.count);
  case CollectiveKind::Barrier:
    return;
  }
}

/// Each rank reduces its slice of the message and stores it into all buffers.
void LocalGroup::allReduce(LocalCalls calls, size_t self) {
  const LocalCall &mine = calls[self];
  const auto ranks = static_cast<unsigned>(calls.size());
  if (ranks == 1)
    return;
  // Slices end on cache lines (of aligned buffers), so that two ranks do not
  // write into one line.
  constexpr size_t lineFloats = 16;
  const Chunk slice = chunkOf(0, mine.count, lineFloats, static_cast<unsigned>(self), ranks);
  auto &[parts, sources, targets] = own[self];
  for (size_t r = 0; r < ranks; ++r)
    sources[r] = targets[r] = calls[r].receive + slice.begin;
  reduceTo(std::span(targets).first(ranks), std::span(sources).first(ranks),
           slice.end - slice.begin, mine.reduction);
}

void LocalGroup::reduceScatter(LocalCalls calls, size_t self) {
  const LocalCall &mine = calls[self];
  const size_t block = mine.count / calls.size();
  std::vector<const float *> &sources = own[self].sources;
  for (size_t r = 0; r < calls.size(); ++r)
    sources[r] = calls[r].send + self * block;
  reduceTo(std::span(&mine.receive, 1), std::span(sources).first(calls.size()), block,
           mine.reduction);
}

} // namespace cleave::rt

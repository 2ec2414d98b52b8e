// Collectives on shared memory.
#include "runtime/Comm/Local/LocalGroup.h"

#include "runtime/Base/ThreadPool.h"
#include "runtime/Comm/Local/Reduction.h"

#include <fmt/format.h>

#include <vector>

namespace cleave::rt {

LocalGroup::LocalGroup(std::vector<int> members, std::chrono::nanoseconds spin)
    : LocalGroup(members, 0, members.size(), spin) {}

LocalGroup::LocalGroup(std::vector<int> members, size_t firstHere, size_t here,
                       std::chrono::nanoseconds spin)
    : calls(here), firstHere(firstHere), memberRanks(std::move(members)),
      addresses(here, {std::vector<const float *>(here), std::vector<float *>(here)}),
      enter(static_cast<unsigned>(here), spin), leave(here, spin) {}

LocalGroup::Outcome LocalGroup::perform(size_t self, const LocalCall &call, Status &failure) {
  calls[self] = call;
  if (!enter.arriveAndWait())
    return Outcome::Broken;
  // Every member compares the same calls and comes to the same result.
  failure = compareCalls();
  if (failure.ok())
    failure = work(self);
  // What lies between the two meetings returns, if with an error.
  leave.arriveAndWait(self);
  return Outcome::Done;
}

Status LocalGroup::compareCalls() const {
  const LocalCall &first = calls.front();
  for (size_t r = 1; r < calls.size(); ++r) {
    const LocalCall &other = calls[r];
    if (other.collective == first.collective && other.count == first.count &&
        other.reduction == first.reduction && other.root == first.root)
      continue;
    Error error = internalError(
        fmt::format("ranks {} and {} made calls that do not match: {} of {} floats (root {}) and "
                    "{} of {} floats (root {})",
                    membersHere()[0], membersHere()[r], nameOf(first.collective), first.count,
                    first.root, nameOf(other.collective), other.count, other.root));
    error.kind = "comm.mismatch";
    return error;
  }
  return {};
}

Status LocalGroup::work(size_t self) {
  const size_t ranks = calls.size();
  const LocalCall &mine = calls[self];
  const size_t block = mine.count / ranks;
  switch (mine.collective) {
  case CollectiveKind::AllReduce:
    allReduce(self);
    break;
  case CollectiveKind::ReduceScatter:
    reduceScatter(self);
    break;
  case CollectiveKind::AllGather:
    for (size_t r = 0; r < ranks; ++r)
      copyFloats(mine.receive + r * block, calls[r].send, block);
    break;
  case CollectiveKind::AllToAll:
    for (size_t r = 0; r < ranks; ++r)
      copyFloats(mine.receive + r * block, calls[r].send + self * block, block);
    break;
  case CollectiveKind::Broadcast:
    copyFloats(mine.receive, calls[static_cast<size_t>(mine.root)].send, mine.count);
    break;
  case CollectiveKind::Barrier:
    break;
  }
  return {};
}

/// Each rank reduces its slice of the message and stores it into all buffers.
void LocalGroup::allReduce(size_t self) {
  const LocalCall &mine = calls[self];
  const auto ranks = static_cast<unsigned>(calls.size());
  if (ranks == 1)
    return;
  // Slices end on cache lines (of aligned buffers), so that two ranks do not
  // write into one line.
  constexpr size_t lineFloats = 16;
  const Chunk slice = chunkOf(0, mine.count, lineFloats, static_cast<unsigned>(self), ranks);
  auto &[sources, targets] = addresses[self];
  for (size_t r = 0; r < ranks; ++r)
    sources[r] = targets[r] = calls[r].receive + slice.begin;
  reduceTo(targets, sources, slice.end - slice.begin, mine.reduction);
}

void LocalGroup::reduceScatter(size_t self) {
  const LocalCall &mine = calls[self];
  const size_t block = mine.count / calls.size();
  std::vector<const float *> &sources = addresses[self].sources;
  for (size_t r = 0; r < calls.size(); ++r)
    sources[r] = calls[r].send + self * block;
  reduceTo(std::span(&mine.receive, 1), sources, block, mine.reduction);
}

} // namespace cleave::rt

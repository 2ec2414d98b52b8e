// Collectives on shared memory.
#include "runtime/Comm/Local/LocalGroup.h"

#include "runtime/Base/ThreadPool.h"
#include "runtime/Comm/Local/Reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace cleave::rt {

LocalGroup::LocalGroup(std::vector<int> members, std::chrono::nanoseconds spin)
    : LocalGroup(members, 0, members.size(), spin) {
  stages.resize(2 * countHere());
}

LocalGroup::LocalGroup(std::vector<int> members, size_t firstHere, size_t here,
                       std::chrono::nanoseconds spin)
    : firstHere(firstHere), memberRanks(std::move(members)), own(here, Own(here)),
      enter(here, spin), leave(here, spin) {}

LocalGroup::Outcome LocalGroup::perform(size_t self, std::span<const LocalCall> parts,
                                        Status &failure) {
  own[self].parts = parts;
  show(self, parts);
  if (!enter.arriveAndWait(self))
    return Outcome::Broken;
  // Every member compares the same calls and comes to the same result.
  bool areStaged = isStaged(parts);
  if (callsMatch(self)) {
    failure = work(self);
  } else {
    failure = mismatch(self);
    for (size_t member = 0; member < countHere(); ++member)
      areStaged = areStaged && isStaged(partsOf(member, self));
  }
  if (areStaged) {
    claimNext(self, parts.front().count);
    return Outcome::Done;
  }
  // What lies between the two meetings returns, if with an error.
  return leave.arriveAndWait(self) ? Outcome::Done : Outcome::Broken;
}

/// The next message is likely to be as large as this one.
void LocalGroup::claimNext(size_t self, size_t floats) const {
  constexpr size_t lineFloats = 16;
  enter.claimNext(self);
  const float *next = stages[enter.nextTurn(self) * countHere() + self].floats;
  for (size_t i = 0; i < floats; i += lineFloats)
    claimLine(next + i);
}

void LocalGroup::show(size_t self, std::span<const LocalCall> parts) {
  LocalMessage &message = enter.nextNote<LocalMessage>(self);
  message.parts = parts;
  if (parts.size() != 1)
    return;
  message.parts = std::span(&message.single, 1);
  // One by one: the caller has just written them so, and the processor would wait for what
  // it is to load in one go.
  const LocalCall &call = parts.front();
  message.single.collective = call.collective;
  message.single.reduction = call.reduction;
  message.single.send = call.send;
  message.single.receive = call.receive;
  message.single.count = call.count;
  message.single.root = call.root;
  if (isStaged(parts))
    message.single.send = stage(self, call);
}

/// Copies what others will read.
const float *LocalGroup::stage(size_t self, const LocalCall &call) {
  float *to = nextStage(self).floats;
  switch (call.collective) {
  case CollectiveKind::AllReduce:
    copyLines(to, call.send, call.count);
    break;
  case CollectiveKind::AllGather:
    copyLines(to, call.send, call.count / countHere());
    break;
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllToAll: {
    // But its own block.
    const size_t block = call.count / countHere(), next = (self + 1) * block;
    copyLines(to, call.send, self * block);
    copyLines(to + next, call.send + next, call.count - next);
    break;
  }
  case CollectiveKind::Broadcast:
    if (static_cast<size_t>(call.root) == self)
      copyLines(to, call.send, call.count);
    break;
  case CollectiveKind::Barrier:
    break;
  }
  return to;
}

static std::string describe(std::span<const LocalCall> parts) {
  size_t floats = 0;
  for (const LocalCall &call : parts)
    floats += call.count;
  return fmt::format("{} of {} floats (root {}){}", nameOf(parts.front().collective), floats,
                     parts.front().root,
                     parts.size() > 1 ? fmt::format(" in {} parts", parts.size()) : "");
}

static bool areAlike(std::span<const LocalCall> some, std::span<const LocalCall> others) {
  if (some.size() != others.size())
    return false;
  for (size_t i = 0; i < some.size(); ++i) {
    const LocalCall &a = some[i], &b = others[i];
    if (a.collective != b.collective || a.count != b.count || a.reduction != b.reduction ||
        a.root != b.root)
      return false;
  }
  return true;
}

bool LocalGroup::callsMatch(size_t self) const {
  for (size_t member = 1; member < countHere(); ++member)
    if (!areAlike(partsOf(0, self), partsOf(member, self)))
      return false;
  return true;
}

Error LocalGroup::mismatch(size_t self) const {
  size_t other = 1;
  while (areAlike(partsOf(0, self), partsOf(other, self)))
    ++other;
  Error error = internalError(fmt::format(
      "ranks {} and {} made calls that do not match: {} and {}", membersHere()[0],
      membersHere()[other], describe(partsOf(0, self)), describe(partsOf(other, self))));
  error.kind = "comm.mismatch";
  return error;
}

Status LocalGroup::work(size_t self) {
  for (size_t part = 0; part < partCount(self); ++part)
    workOn(callsOf(part, self), self);
  return {};
}

void LocalGroup::workOn(const LocalCalls &calls, size_t self) {
  const size_t ranks = calls.size();
  const LocalCall &mine = calls[self];
  switch (mine.collective) {
  case CollectiveKind::AllReduce:
    return isStaged(own[self].parts) ? reduceAll(calls, self) : reduceSlice(calls, self);
  case CollectiveKind::ReduceScatter:
    return reduceScatter(calls, self);
  case CollectiveKind::AllGather: {
    const size_t block = mine.count / ranks;
    for (size_t r = 0; r < ranks; ++r)
      copyFloats(mine.receive + r * block, calls[r].send, block);
    return;
  }
  case CollectiveKind::AllToAll: {
    const size_t block = mine.count / ranks;
    for (size_t r = 0; r < ranks; ++r)
      copyFloats(mine.receive + r * block, calls[r].send + self * block, block);
    return;
  }
  case CollectiveKind::Broadcast:
    return copyFloats(mine.receive, calls[static_cast<size_t>(mine.root)].send, mine.count);
  case CollectiveKind::Barrier:
    return;
  }
}

/// Each rank reduces the whole message, for itself.
void LocalGroup::reduceAll(const LocalCalls &calls, size_t self) {
  const LocalCall &mine = calls[self];
  std::vector<const float *> &sources = own[self].sources;
  for (size_t r = 0; r < calls.size(); ++r)
    sources[r] = calls[r].send;
  reduceTo(std::span(&mine.receive, 1), std::span(sources).first(calls.size()), mine.count,
           mine.reduction);
}

/// Each rank reduces its slice of the message and stores it into all buffers.
void LocalGroup::reduceSlice(const LocalCalls &calls, size_t self) {
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

void LocalGroup::reduceScatter(const LocalCalls &calls, size_t self) {
  const LocalCall &mine = calls[self];
  const size_t block = mine.count / calls.size();
  std::vector<const float *> &sources = own[self].sources;
  for (size_t r = 0; r < calls.size(); ++r)
    sources[r] = calls[r].send + self * block;
  reduceTo(std::span(&mine.receive, 1), std::span(sources).first(calls.size()), block,
           mine.reduction);
}

} // namespace cleave::rt

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
  if (countHere() > 1)
    stages.resize(2 * countHere());
}

LocalGroup::LocalGroup(std::vector<int> members, size_t firstHere, size_t here,
                       std::chrono::nanoseconds spin)
    : firstHere(firstHere), memberRanks(std::move(members)), own(here, Own(here)),
      enter(here, spin), leave(here, spin) {}

LocalGroup::Outcome LocalGroup::perform(size_t self, std::span<const LocalCall> parts,
                                        Status &failure) {
  own[self].parts = parts;
  const Stretches read = othersRead(parts.front(), self);
  bool areStaged = isStaged(parts, read);
  if (areStaged)
    stage(self, parts.front(), read);
  show(self, parts);
  if (!enter.arriveAndWait(self))
    return Outcome::Broken;
  // Every member compares the same calls and comes to the same result.
  if (!callsMatch(self)) {
    failure = mismatch(self);
    for (size_t member = 0; member < countHere(); ++member)
      areStaged = areStaged && isStaged(partsOf(member, self),
                                        othersRead(partsOf(member, self).front(), member));
  } else if (areStaged) {
    workOnStages(parts.front(), self);
    claimNextStage(self, read);
  } else {
    failure = work(self);
  }
  // What lies between the two meetings returns, if with an error.
  if (!areStaged && !leave.arriveAndWait(self))
    return Outcome::Broken;
  return Outcome::Done;
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
  const auto apart = [] { std::atomic_signal_fence(std::memory_order_seq_cst); };
  message.single.collective = call.collective;
  apart();
  message.single.reduction = call.reduction;
  apart();
  message.single.send = call.send;
  apart();
  message.single.receive = call.receive;
  apart();
  message.single.count = call.count;
  apart();
  message.single.root = call.root;
}

LocalGroup::Stretches LocalGroup::othersRead(const LocalCall &call, size_t self) const {
  switch (call.collective) {
  case CollectiveKind::AllReduce:
  case CollectiveKind::Broadcast:
    return {call.count, call.count, call.count};
  case CollectiveKind::AllGather: {
    const size_t block = call.count / countHere();
    return {block, block, block};
  }
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllToAll: {
    const size_t block = call.count / countHere(), own = self * block;
    return {own, own + block, call.count};
  }
  case CollectiveKind::Barrier:
    return {};
  }
  return {};
}

void LocalGroup::stage(size_t self, const LocalCall &call, const Stretches &read) {
  if (call.collective == CollectiveKind::Broadcast && static_cast<size_t>(call.root) != self)
    return;
  float *to = stageOf(self, own[self].stage).floats;
  copyLines(to, call.send, read.before);
  if (read.after < read.end)
    copyLines(to + read.after, call.send + read.after, read.end - read.after);
}

/// The next message is likely to be as large as this one, and its stage lies with those who
/// have read it: it comes back by a write, for which nobody waits. A prefetch for writing is
/// dropped where there are more than a few.
void LocalGroup::claimNextStage(size_t self, const Stretches &read) {
  constexpr size_t lineFloats = 16;
  own[self].stage = 1 - own[self].stage;
  float *next = stageOf(self, own[self].stage).floats;
  for (size_t i = 0; i < read.before; i += lineFloats)
    next[i] = 0;
  for (size_t i = read.after; i < read.end; i += lineFloats)
    next[i] = 0;
}

/// Where stages lie is known before anything of the others is there: what they have in them
/// comes with their words, not after.
void LocalGroup::workOnStages(const LocalCall &call, size_t self) {
  const size_t ranks = countHere(), turn = own[self].stage;
  const auto sent = [&](size_t member) -> const float * {
    return member == self ? call.send : stageOf(member, turn).floats;
  };
  std::vector<const float *> &sources = own[self].sources;
  switch (call.collective) {
  case CollectiveKind::AllReduce:
    for (size_t r = 0; r < ranks; ++r)
      sources[r] = sent(r);
    return reduceTo(std::span(&call.receive, 1), std::span(sources).first(ranks), call.count,
                    call.reduction);
  case CollectiveKind::ReduceScatter: {
    const size_t block = call.count / ranks;
    for (size_t r = 0; r < ranks; ++r)
      sources[r] = sent(r) + self * block;
    return reduceTo(std::span(&call.receive, 1), std::span(sources).first(ranks), block,
                    call.reduction);
  }
  case CollectiveKind::AllGather: {
    const size_t block = call.count / ranks;
    for (size_t r = 0; r < ranks; ++r)
      copyFloats(call.receive + r * block, sent(r), block);
    return;
  }
  case CollectiveKind::AllToAll: {
    const size_t block = call.count / ranks;
    for (size_t r = 0; r < ranks; ++r)
      copyFloats(call.receive + r * block, sent(r) + self * block, block);
    return;
  }
  case CollectiveKind::Broadcast:
    return copyFloats(call.receive, sent(static_cast<size_t>(call.root)), call.count);
  case CollectiveKind::Barrier:
    return;
  }
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
  for (size_t member = 0; member < countHere(); ++member)
    if (member != self && !areAlike(own[self].parts, partsOf(member, self)))
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
    return reduceSlice(calls, self);
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
  auto &[parts, stage, sources, targets] = own[self];
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

// Collectives on shared memory.
#include "runtime/Comm/Local/LocalGroup.h"

#include "runtime/Base/ThreadPool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace cleave::rt {

namespace {

/// Floats reduced at a time: the accumulator stays in the first-level cache, and
/// moves are short enough that the C library does not take its path for large
/// blocks, which is slow on lines another core holds.
constexpr size_t blockFloats = 512;

struct AddFloats {
  float operator()(float a, float b) const { return a + b; }
};

struct MaxFloats {
  float operator()(float a, float b) const { return b > a || b != b ? b : a; }
};

/// accumulator = reduction, in order of rank, of `source(r)[0 … count)`; at
/// least two ranks.
template <typename Operation, typename Source>
void reduceBlock(float *__restrict accumulator, size_t count, size_t ranks, Operation operation,
                 Source source) {
  const float *first = source(0), *second = source(1);
  for (size_t i = 0; i < count; ++i)
    accumulator[i] = operation(first[i], second[i]);
  for (size_t r = 2; r < ranks; ++r) {
    const float *values = source(r);
    for (size_t i = 0; i < count; ++i)
      accumulator[i] = operation(accumulator[i], values[i]);
  }
}

template <typename Source>
void reduceBlock(float *accumulator, size_t count, size_t ranks, ReduceKind kind, Source source) {
  if (kind == ReduceKind::Sum)
    reduceBlock(accumulator, count, ranks, AddFloats(), source);
  else
    reduceBlock(accumulator, count, ranks, MaxFloats(), source);
}

void copyFloats(float *to, const float *from, size_t count) {
  if (to != from && count > 0)
    std::memcpy(to, from, count * sizeof(float));
}

} // namespace

void reduceInOrder(float *accumulator, size_t count, size_t sources, ReduceKind kind,
                   FloatSource source) {
  if (sources == 1)
    return copyFloats(accumulator, source(0), count);
  // In blocks: an accumulator of a first-level cache's size is not written to
  // memory once for every source.
  float block[blockFloats];
  for (size_t at = 0; at < count; at += blockFloats) {
    const size_t floats = std::min(blockFloats, count - at);
    reduceBlock(block, floats, sources, kind, [&](size_t i) { return source(i) + at; });
    std::memcpy(accumulator + at, block, floats * sizeof(float));
  }
}

LocalGroup::LocalGroup(std::vector<int> members, std::chrono::nanoseconds spin)
    : LocalGroup(members, 0, members.size(), spin) {}

LocalGroup::LocalGroup(std::vector<int> members, size_t firstHere, size_t here,
                       std::chrono::nanoseconds spin)
    : calls(here), firstHere(firstHere), memberRanks(std::move(members)),
      enter(static_cast<unsigned>(here), spin), leave(static_cast<unsigned>(here), spin) {}

LocalGroup::Outcome LocalGroup::perform(size_t self, const LocalCall &call, Status &failure) {
  calls[self] = call;
  if (!enter.arriveAndWait())
    return Outcome::Broken;
  // Every member compares the same calls and comes to the same result.
  failure = compareCalls();
  if (failure.ok())
    failure = work(self);
  // Never broken: what lies between the two meetings returns, if with an error.
  [[maybe_unused]] const bool left = leave.arriveAndWait();
  assert(left && "the second meeting of a collective broke");
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
void LocalGroup::allReduce(size_t self) const {
  const LocalCall &mine = calls[self];
  const size_t ranks = calls.size();
  if (ranks == 1)
    return;
  // Slices end on cache lines (of aligned buffers), so that two ranks do not
  // write into one line.
  constexpr size_t lineFloats = 16;
  const Chunk slice =
      chunkOf(0, mine.count, lineFloats, static_cast<unsigned>(self), static_cast<unsigned>(ranks));
  float accumulator[blockFloats];
  for (size_t at = slice.begin; at < slice.end; at += blockFloats) {
    const size_t count = std::min(blockFloats, slice.end - at);
    reduceBlock(accumulator, count, ranks, mine.reduction,
                [&](size_t r) { return calls[r].receive + at; });
    for (const LocalCall &call : calls)
      std::memcpy(call.receive + at, accumulator, count * sizeof(float));
  }
}

void LocalGroup::reduceScatter(size_t self) const {
  const LocalCall &mine = calls[self];
  const size_t ranks = calls.size(), block = mine.count / ranks;
  const size_t first = self * block;
  if (ranks == 1)
    return copyFloats(mine.receive, mine.send, block);
  float accumulator[blockFloats];
  for (size_t at = 0; at < block; at += blockFloats) {
    const size_t count = std::min(blockFloats, block - at);
    reduceBlock(accumulator, count, ranks, mine.reduction,
                [&](size_t r) { return calls[r].send + first + at; });
    std::memcpy(mine.receive + at, accumulator, count * sizeof(float));
  }
}

} // namespace cleave::rt

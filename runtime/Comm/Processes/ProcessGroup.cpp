// Collectives between processes.
#include "runtime/Comm/Processes/ProcessGroup.h"

#include "runtime/Base/ThreadPool.h"
#include "runtime/Comm/Local/Reduction.h"
#include "runtime/Comm/Processes/Chain.h"

#include <fmt/format.h>

#include <algorithm>

namespace cleave::rt {

namespace {

/// A reduction of so many floats over all ranks is sent directly: 64 KiB.
constexpr size_t directFloats = 16384;

/// Floats of a block that are reduced directly at a time.
constexpr size_t pieceFloats = size_t{1} << 18;

size_t fewestRanks(const std::vector<GroupPart> &parts) {
  return std::ranges::min(parts, {}, &GroupPart::count).count;
}

size_t ranksBefore(const std::vector<GroupPart> &parts, int process) {
  return std::ranges::find(parts, process, &GroupPart::process)->begin;
}

size_t ranksIn(const std::vector<GroupPart> &parts, int process) {
  return std::ranges::find(parts, process, &GroupPart::process)->count;
}

} // namespace

StatusOr<std::vector<GroupPart>> ProcessGroup::partsOf(const std::vector<int> &members,
                                                       int ranksEach) {
  std::vector<GroupPart> parts;
  for (size_t i = 0; i < members.size(); ++i) {
    const int process = members[i] / ranksEach;
    if (parts.empty() || parts.back().process != process) {
      if (std::ranges::find(parts, process, &GroupPart::process) != parts.end()) {
        Error error = internalError(
            fmt::format("the ranks of process {} do not follow each other in the group [{}]",
                        process, fmt::join(members, ", ")));
        error.kind = "comm.bad_group";
        return error;
      }
      parts.push_back({process, i, 0});
    }
    ++parts.back().count;
  }
  return parts;
}

int ProcessGroup::tagCount(const std::vector<GroupPart> &parts) {
  return 1 + static_cast<int>(fewestRanks(parts));
}

ProcessGroup::ProcessGroup(std::vector<int> members, std::vector<GroupPart> given, int tag,
                           MessagePort &port, std::chrono::nanoseconds spin)
    : LocalGroup(std::move(members), ranksBefore(given, port.process()),
                 ranksIn(given, port.process()), spin),
      parts(std::move(given)), laneCount(fewestRanks(parts)), firstTag(tag), port(port),
      stages(laneCount) {
  mine = static_cast<size_t>(std::ranges::find(parts, port.process(), &GroupPart::process) -
                             parts.begin());
}

size_t ProcessGroup::partOf(size_t position) const {
  size_t part = 0;
  while (position >= parts[part].begin + parts[part].count)
    ++part;
  return part;
}

bool ProcessGroup::sumsDirectly(LocalCalls calls) const {
  return calls.front().count * members().size() <= directFloats;
}

/// Parts of a gathered message, and of one that is scattered directly, are all on their way
/// at once; those of others follow each other.
Status ProcessGroup::work(size_t self) {
  const CollectiveKind kind = callsOf(0)[self].collective;
  if (kind == CollectiveKind::AllGather)
    return allGather(self);
  if (kind == CollectiveKind::ReduceScatter && parts.size() == members().size())
    return reduceScatterDirectly(0, partCount());
  for (size_t part = 0; part < partCount(); ++part)
    CLEAVE_RT_RETURN_IF_ERROR(workOn(part, self));
  return {};
}

Status ProcessGroup::workOn(size_t part, size_t self) {
  const LocalCalls calls = callsOf(part);
  const bool isLane = self < laneCount;
  switch (calls[self].collective) {
  case CollectiveKind::AllReduce:
    if (!sumsDirectly(calls))
      return isLane ? chain(calls, self, chunksOfAllReduce(calls, self)) : Status();
    return self == 0 ? allReduceDirectly(calls) : Status();
  case CollectiveKind::ReduceScatter:
    if (!sumsDirectly(calls))
      return isLane ? chain(calls, self, chunksOfReduceScatter(calls, self)) : Status();
    return self == 0 ? reduceScatterDirectly(part, part + 1) : Status();
  case CollectiveKind::AllGather:
    return allGather(self);
  case CollectiveKind::AllToAll:
    return allToAll(calls, self);
  case CollectiveKind::Broadcast:
    return self == 0 ? broadcast(calls) : Status();
  case CollectiveKind::Barrier:
    return self == 0 ? barrier() : Status();
  }
  return {};
}

/// Every process gets what every rank adds.
Status ProcessGroup::allReduceDirectly(LocalCalls calls) {
  const size_t count = calls.front().count, ranks = members().size();
  std::vector<float> &stage = stages[0];
  stage.resize(std::max(stage.size(), count * ranks));
  MessagePort::Batch batch(port);
  for (const GroupPart &part : parts) {
    if (part.process == port.process())
      continue;
    CLEAVE_RT_RETURN_IF_ERROR(batch.receive(
        std::span(stage).subspan(part.begin * count, part.count * count), part.process, firstTag));
  }
  // The ranks here lie beside each other in the stage, and so are one message.
  float *own = stage.data() + firstHere * count;
  for (size_t i = 0; i < calls.size(); ++i)
    copyFloats(own + i * count, calls[i].send, count);
  for (const GroupPart &part : parts)
    if (part.process != port.process())
      CLEAVE_RT_RETURN_IF_ERROR(batch.send({own, calls.size() * count}, part.process, firstTag));
  CLEAVE_RT_RETURN_IF_ERROR(batch.wait());
  float *sum = calls[0].receive;
  reduceInOrder(sum, count, ranks, calls[0].reduction,
                [&](size_t rank) { return stage.data() + rank * count; });
  for (size_t i = 0; i < calls.size(); ++i)
    copyFloats(calls[i].receive, sum, count);
  return {};
}

/// A stretch of the block that each rank gets of one part of a message.
struct ProcessGroup::Piece {
  LocalCalls calls;
  /// Floats of the block, and which of them.
  size_t block, at, count;
};

std::vector<ProcessGroup::Piece> ProcessGroup::piecesOf(size_t first, size_t end) const {
  std::vector<Piece> pieces;
  for (size_t part = first; part < end; ++part) {
    const LocalCalls calls = callsOf(part);
    const size_t block = calls.front().count / members().size();
    for (size_t at = 0; at < block; at += pieceFloats)
      pieces.push_back({calls, block, at, std::min(pieceFloats, block - at)});
  }
  return pieces;
}

/// Every rank gets what the others add to its blocks, a piece after the other; the next
/// piece is on its way while one is added up.
Status ProcessGroup::reduceScatterDirectly(size_t first, size_t end) {
  const std::vector<Piece> pieces = piecesOf(first, end);
  if (pieces.empty())
    return {};
  const size_t ranks = members().size(), here = countHere();
  const size_t largest = std::ranges::max(pieces, {}, &Piece::count).count;
  std::vector<float> &stage = stages[0];
  stage.resize(std::max(stage.size(), 2 * here * ranks * largest));
  // What rank `from` adds to the block of member `to` here.
  auto staged = [&](size_t i, size_t to, size_t from) {
    return stage.data() + ((i % 2 * here + to) * ranks + from) * largest;
  };
  MessagePort::Batch batch(port);
  size_t newest = 0;
  auto begin = [&](size_t i) -> Status {
    const Piece &piece = pieces[i];
    newest = 0;
    for (const GroupPart &part : parts) {
      if (part.process == port.process())
        continue;
      newest += 2 * part.count * here;
      for (size_t from = part.begin; from < part.begin + part.count; ++from)
        for (size_t to = 0; to < here; ++to)
          CLEAVE_RT_RETURN_IF_ERROR(
              batch.receive({staged(i, to, from), piece.count}, part.process, firstTag));
      for (size_t from = 0; from < here; ++from)
        for (size_t to = part.begin; to < part.begin + part.count; ++to)
          CLEAVE_RT_RETURN_IF_ERROR(
              batch.send({piece.calls[from].send + to * piece.block + piece.at, piece.count},
                         part.process, firstTag));
    }
    return {};
  };
  CLEAVE_RT_RETURN_IF_ERROR(begin(0));
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece &piece = pieces[i];
    const bool isLast = i + 1 == pieces.size();
    if (!isLast)
      CLEAVE_RT_RETURN_IF_ERROR(begin(i + 1));
    CLEAVE_RT_RETURN_IF_ERROR(batch.waitAllBut(isLast ? 0 : newest));
    for (size_t to = 0; to < here; ++to)
      reduceInOrder(piece.calls[to].receive + piece.at, piece.count, ranks,
                    piece.calls[to].reduction, [&](size_t from) -> const float * {
                      if (!isHere(from))
                        return staged(i, to, from);
                      return piece.calls[from - firstHere].send + (firstHere + to) * piece.block +
                             piece.at;
                    });
  }
  return {};
}

std::vector<SumChunk> ProcessGroup::chunksOfAllReduce(LocalCalls calls, size_t lane) const {
  constexpr size_t lineFloats = 16;
  const auto share = chunkOf(0, calls.front().count, lineFloats, static_cast<unsigned>(lane),
                             static_cast<unsigned>(laneCount));
  std::vector<SumChunk> chunks;
  for (size_t at = share.begin; at < share.end; at += Chain::chunkFloats)
    chunks.push_back({at, std::min(Chain::chunkFloats, share.end - at), 0});
  return chunks;
}

std::vector<SumChunk> ProcessGroup::chunksOfReduceScatter(LocalCalls calls, size_t lane) const {
  const size_t block = calls.front().count / members().size();
  const auto share =
      chunkOf(0, block, 1, static_cast<unsigned>(lane), static_cast<unsigned>(laneCount));
  std::vector<SumChunk> chunks;
  for (size_t rank = 0; rank < members().size(); ++rank)
    for (size_t at = share.begin; at < share.end; at += Chain::chunkFloats)
      chunks.push_back(
          {rank * block + at, std::min(Chain::chunkFloats, share.end - at), partOf(rank), rank});
  return chunks;
}

Status ProcessGroup::chain(LocalCalls calls, size_t lane, const std::vector<SumChunk> &chunks) {
  const size_t block = calls.front().count / members().size();
  auto places = [&](const SumChunk &chunk) {
    std::vector<float *> found;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (!chunk.rank)
        found.push_back(calls[i].receive + chunk.begin);
      else if (*chunk.rank == firstHere + i)
        found.push_back(calls[i].receive + chunk.begin - *chunk.rank * block);
    }
    return found;
  };
  Chain chain(port, firstTag + 1 + static_cast<int>(lane), stages[lane]);
  chain.before = mine > 0 ? parts[mine - 1].process : -1;
  chain.after = mine + 1 < parts.size() ? parts[mine + 1].process : -1;
  chain.place = mine;
  chain.length = parts.size();
  return chain.run(
      chunks,
      [&](const SumChunk &chunk, float *sum, bool isStarted) {
        const size_t started = isStarted ? 1 : 0;
        reduceInOrder(sum, chunk.count, calls.size() + started, calls[0].reduction,
                      [&](size_t i) -> const float * {
                        return i < started ? sum : calls[i - started].send + chunk.begin;
                      });
      },
      places);
}

Status ProcessGroup::allGather(size_t self) {
  MessagePort::Batch batch(port);
  // The blocks of another process of which this member is to see to.
  auto eachOther = [&](auto visit) -> Status {
    for (size_t part = 0; part < partCount(); ++part)
      for (size_t p = 0; p < parts.size() && self < laneCount; ++p)
        if (p != mine && talksTo(p, self))
          CLEAVE_RT_RETURN_IF_ERROR(
              visit(callsOf(part), parts[p], callsOf(part)[self].count / members().size()));
    return {};
  };
  CLEAVE_RT_RETURN_IF_ERROR(
      eachOther([&](LocalCalls calls, const GroupPart &other, size_t block) -> Status {
        for (size_t i = other.begin; i < other.begin + other.count; ++i)
          CLEAVE_RT_RETURN_IF_ERROR(
              batch.receive({calls[self].receive + i * block, block}, other.process, firstTag));
        for (size_t i = 0; i < calls.size(); ++i)
          CLEAVE_RT_RETURN_IF_ERROR(batch.send({calls[i].send, block}, other.process, firstTag));
        return {};
      }));
  for (size_t part = 0; part < partCount(); ++part) {
    const LocalCalls calls = callsOf(part);
    const size_t block = calls[self].count / members().size();
    for (size_t i = 0; i < calls.size(); ++i)
      copyFloats(calls[self].receive + (firstHere + i) * block, calls[i].send, block);
  }
  CLEAVE_RT_RETURN_IF_ERROR(batch.wait());
  return eachOther([&](LocalCalls calls, const GroupPart &other, size_t block) -> Status {
    const size_t at = other.begin * block;
    for (size_t i = 0; i < calls.size(); ++i)
      copyFloats(calls[i].receive + at, calls[self].receive + at, other.count * block);
    return {};
  });
}

Status ProcessGroup::allToAll(LocalCalls calls, size_t self) {
  const size_t block = calls[self].count / members().size();
  MessagePort::Batch batch(port);
  for (size_t p = 0; p < parts.size() && self < laneCount; ++p) {
    const GroupPart &part = parts[p];
    if (p == mine || !talksTo(p, self))
      continue;
    for (size_t from = part.begin; from < part.begin + part.count; ++from)
      for (size_t i = 0; i < calls.size(); ++i)
        CLEAVE_RT_RETURN_IF_ERROR(
            batch.receive({calls[i].receive + from * block, block}, part.process, firstTag));
    for (size_t i = 0; i < calls.size(); ++i)
      for (size_t to = part.begin; to < part.begin + part.count; ++to)
        CLEAVE_RT_RETURN_IF_ERROR(
            batch.send({calls[i].send + to * block, block}, part.process, firstTag));
  }
  for (size_t i = 0; i < calls.size(); ++i)
    copyFloats(calls[self].receive + (firstHere + i) * block,
               calls[i].send + (firstHere + self) * block, block);
  return batch.wait();
}

/// Down a binomial tree of processes with the root's at its top.
Status ProcessGroup::broadcast(LocalCalls calls) {
  const auto root = static_cast<size_t>(calls[0].root);
  const size_t count = parts.size(), top = partOf(root), place = (mine + count - top) % count;
  auto processAt = [&](size_t index) { return parts[(index + top) % count].process; };
  const std::span<float> data(calls[isHere(root) ? root - firstHere : 0].receive, calls[0].count);
  MessagePort::Batch batch(port);
  size_t distance = 1;
  while (distance < count && (place & distance) == 0)
    distance *= 2;
  if (place > 0) {
    CLEAVE_RT_RETURN_IF_ERROR(batch.receive(data, processAt(place - distance), firstTag));
    CLEAVE_RT_RETURN_IF_ERROR(batch.wait());
  }
  for (distance /= 2; distance > 0; distance /= 2)
    if (place + distance < count)
      CLEAVE_RT_RETURN_IF_ERROR(batch.send(data, processAt(place + distance), firstTag));
  for (size_t i = 0; i < calls.size(); ++i)
    copyFloats(calls[i].receive, data.data(), data.size());
  return batch.wait();
}

/// In round i each process tells the one 2^i further on that it has heard from all
/// before itself that far.
Status ProcessGroup::barrier() {
  const size_t count = parts.size();
  float sent = 0, received = 0;
  for (size_t distance = 1; distance < count; distance *= 2) {
    MessagePort::Batch batch(port);
    CLEAVE_RT_RETURN_IF_ERROR(
        batch.receive({&received, 1}, parts[(mine + count - distance) % count].process, firstTag));
    CLEAVE_RT_RETURN_IF_ERROR(
        batch.send({&sent, 1}, parts[(mine + distance) % count].process, firstTag));
    CLEAVE_RT_RETURN_IF_ERROR(batch.wait());
  }
  return {};
}

} // namespace cleave::rt

// A group of ranks in several processes. Its members here meet as in any local
// group (Comm/Local/LocalGroup.h); between the meetings some of them, the lanes,
// exchange messages with their partners in the other processes, each for its own
// share of the work, directly between the ranks' buffers where that is possible.
//
// Sums are those of the order of ranks, bit for bit what Local gives:
// - small messages, and reductions of groups with one rank per process, go directly:
//   who needs a sum gets what each rank adds to it, and adds in order;
// - else a chain: the first process adds up its ranks and sends the sum to the
//   second, which goes on from there; the last has the result, and it comes back
//   the same way. In chunks, so that all links are busy at once, and each process
//   sends a chunk once each way, however many ranks it has.
// Internal to Comm/Processes.
#pragma once

#include "runtime/Comm/Local/LocalGroup.h"
#include "runtime/Comm/Processes/Chain.h"
#include "runtime/Comm/Processes/MessagePort.h"

namespace cleave::rt {

/// The members of a group that are in one process: a stretch of its order.
struct GroupPart {
  int process = 0;
  size_t begin = 0, count = 0;
};

class ProcessGroup final : public LocalGroup {
public:
  /// The parts of a group where each process has `ranksEach` ranks, in order.
  /// `comm.bad_group` if the members in a process don't follow each other.
  static StatusOr<std::vector<GroupPart>> partsOf(const std::vector<int> &members, int ranksEach);

  /// `parts`: at least two, one of them `port`'s process. `tag`: the first of
  /// `tagCount(parts)` tags that only this group uses.
  ProcessGroup(std::vector<int> members, std::vector<GroupPart> parts, int tag, MessagePort &port,
               std::chrono::nanoseconds spin);

  static int tagCount(const std::vector<GroupPart> &parts);

protected:
  Status work(size_t self) override;

private:
  /// True if member `self` does this process's share of the exchange with `part`.
  bool talksTo(size_t part, size_t self) const { return part % laneCount == self; }
  size_t partOf(size_t position) const;
  bool isHere(size_t position) const { return position - firstHere < countHere(); }
  /// True if a sum sent all at once costs no more than one that goes from process
  /// to process.
  bool sumsDirectly(LocalCalls calls) const;

  struct Piece;
  /// Of parts `first` to `end` - 1 of the message.
  std::vector<Piece> piecesOf(size_t first, size_t end) const;

  Status workOn(size_t part, size_t self);
  Status allReduceDirectly(LocalCalls calls);
  Status reduceScatterDirectly(size_t first, size_t end);
  Status chain(LocalCalls calls, size_t lane, const std::vector<SumChunk> &chunks);
  std::vector<SumChunk> chunksOfAllReduce(LocalCalls calls, size_t lane) const;
  std::vector<SumChunk> chunksOfReduceScatter(LocalCalls calls, size_t lane) const;
  Status allGather(size_t self);
  Status allToAll(LocalCalls calls, size_t self);
  Status broadcast(LocalCalls calls);
  Status barrier();

  const std::vector<GroupPart> parts;
  size_t mine = 0; // index of this process's part
  size_t laneCount = 0;
  const int firstTag;
  MessagePort &port;
  /// Of each lane: memory for sums on their way; as large as they were needed so far.
  std::vector<std::vector<float>> stages;
};

} // namespace cleave::rt

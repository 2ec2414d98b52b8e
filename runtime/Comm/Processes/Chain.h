// A reduction in the order of processes: each gets the sum of all before it, adds
// its own ranks, and passes it on; the last has the result, which comes back the
// same way as far as it is wanted. The message goes in chunks, and each process
// handles results of earlier chunks while later ones are under way, in an order in
// which no process ever waits for one that waits for it. Internal to
// Comm/Processes.
#pragma once

#include "runtime/Base/FunctionRef.h"
#include "runtime/Comm/Processes/MessagePort.h"

#include <optional>
#include <vector>

namespace cleave::rt {

/// A stretch of a message that travels at once.
struct SumChunk {
  size_t begin, count;
  /// The first process of the chain that wants the sum; those before it don't.
  size_t wantedFrom;
  /// The one rank of that process that gets it; none: all ranks from there on do.
  std::optional<size_t> rank = std::nullopt;
};

class Chain {
public:
  /// 256 KiB.
  static constexpr size_t chunkFloats = size_t{1} << 16;

  /// `stage` is used while `run` runs, and grown if it is too small.
  Chain(MessagePort &port, int tag, std::vector<float> &stage)
      : port(port), tag(tag), stage(stage) {}

  /// The neighbours; −1 at the ends.
  int before = -1, after = -1;
  /// Where this process stands in the chain, and how many there are.
  size_t place = 0, length = 0;

  /// Adds what the ranks here bring to `sum`, which holds the sum so far if `isStarted`.
  using AddHere = FunctionRef<void(const SumChunk &chunk, float *sum, bool isStarted)>;
  /// Where the sum of a chunk goes here; may be nowhere. What lies there has been
  /// added before.
  using PlacesHere = FunctionRef<std::vector<float *>(const SumChunk &chunk)>;

  /// All processes of the chain give the same chunks. Kinds of MessagePort.
  Status run(const std::vector<SumChunk> &chunks, AddHere add, PlacesHere places);

private:
  /// Chunks under way in one direction.
  static constexpr size_t depth = 4;
  using Slots = std::vector<MessagePort::Batch>;

  bool isLast() const { return after < 0; }
  float *stageOf(size_t chunk, bool forResults) {
    return stage.data() + (chunk % depth + (forResults ? depth : 0)) * chunkFloats;
  }
  Status awaitSum(const std::vector<SumChunk> &chunks, size_t chunk);
  Status passSum(const std::vector<SumChunk> &chunks, size_t chunk, AddHere add, PlacesHere places);
  Status awaitResult(const std::vector<SumChunk> &chunks, size_t chunk, PlacesHere places);
  Status passResult(const std::vector<SumChunk> &chunks, size_t chunk, PlacesHere places);

  MessagePort &port;
  const int tag;
  std::vector<float> &stage;
  Slots sums, results;
};

} // namespace cleave::rt

// Which sequence the n-th sample of a run is: a pure function of (seed, epoch,
// index), so that a data position is one integer, independent of ranks,
// workers and restarts.
//
// `Shuffle` is a Feistel network over the index with keys from (seed, epoch):
// a bijection of a power of four at least as large as the number of sequences;
// results outside are fed back in until they land inside, which keeps it a
// permutation of exactly the sequences. Nothing is stored, whatever the size.
#pragma once

#include <cstdint>

namespace cleave::rt {

enum class OrderKind { Sequential, Shuffle };

class SampleOrder {
public:
  /// `sequences` (at least 1) is the length of an epoch.
  SampleOrder(OrderKind kind, uint64_t seed, uint64_t sequences);

  uint64_t epochLength() const { return sequences; }
  uint64_t epochOf(uint64_t sample) const { return sample / sequences; }
  /// The sequence that sample number `sample` (from 0, over all epochs) is.
  uint64_t sequenceOf(uint64_t sample) const;

private:
  uint64_t permuted(uint64_t epoch, uint64_t index) const;

  OrderKind kind;
  uint64_t seed;
  uint64_t sequences;
  /// Bits of each half of the network.
  unsigned halfBits;
};

} // namespace cleave::rt

// The Feistel permutation.
#include "runtime/Data/SampleOrder.h"

#include <bit>
#include <cassert>

namespace cleave::rt {

/// A 64-bit mix in which every input bit reaches every output bit.
static uint64_t mixed(uint64_t value) {
  value ^= value >> 32;
  value *= 0xD6E8FEB86659FD93;
  value ^= value >> 32;
  value *= 0xD6E8FEB86659FD93;
  value ^= value >> 32;
  return value;
}

SampleOrder::SampleOrder(OrderKind kind, uint64_t seed, uint64_t sequences)
    : kind(kind), seed(seed), sequences(sequences) {
  assert(sequences > 0 && "an epoch has at least one sequence");
  const unsigned bits = static_cast<unsigned>(std::bit_width(sequences - 1));
  halfBits = bits < 2 ? 1 : (bits + 1) / 2;
}

uint64_t SampleOrder::permuted(uint64_t epoch, uint64_t index) const {
  // Four rounds make a good permutation of large halves; small ones, whose
  // round functions have few values, need more.
  constexpr unsigned rounds = 8;
  const uint64_t mask = (uint64_t{1} << halfBits) - 1;
  const uint64_t key = mixed(mixed(seed + 0x9E3779B97F4A7C15) ^ (epoch + 0x632BE59BD9B4E019));
  do {
    uint64_t left = index >> halfBits, right = index & mask;
    for (unsigned round = 0; round < rounds; ++round) {
      const uint64_t f = mixed(key + round * 0x9E3779B97F4A7C15 ^ mixed(right + 1)) & mask;
      const uint64_t next = left ^ f;
      left = right;
      right = next;
    }
    index = left << halfBits | right;
  } while (index >= sequences);
  return index;
}

uint64_t SampleOrder::sequenceOf(uint64_t sample) const {
  const uint64_t index = sample % sequences;
  return kind == OrderKind::Sequential ? index : permuted(sample / sequences, index);
}

} // namespace cleave::rt

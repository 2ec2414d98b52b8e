// The shuffle is a permutation, depends on everything it should, and mixes.
#include "runtime/Data/SampleOrder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

using namespace cleave::rt;

namespace {

TEST(SampleOrder, SequentialWrapsAround) {
  const SampleOrder order(OrderKind::Sequential, 9, 5);
  for (uint64_t sample = 0; sample < 17; ++sample)
    EXPECT_EQ(order.sequenceOf(sample), sample % 5);
  EXPECT_EQ(order.epochOf(14), 2u);
  EXPECT_EQ(order.epochOf(15), 3u);
}

TEST(SampleOrder, ShuffleIsAPermutationOfEveryEpoch) {
  for (uint64_t size : {1, 2, 3, 4, 5, 7, 16, 17, 100, 1023, 1025, 20000}) {
    const SampleOrder order(OrderKind::Shuffle, 42, size);
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<bool> seen(size, false);
      for (uint64_t i = 0; i < size; ++i) {
        const uint64_t sequence = order.sequenceOf(epoch * size + i);
        ASSERT_LT(sequence, size);
        ASSERT_FALSE(seen[sequence]) << size << " " << i;
        seen[sequence] = true;
      }
    }
  }
}

TEST(SampleOrder, DependsOnSeedAndEpochOnly) {
  const uint64_t size = 1000;
  const SampleOrder a(OrderKind::Shuffle, 1, size), again(OrderKind::Shuffle, 1, size),
      other(OrderKind::Shuffle, 2, size);
  uint64_t sameAsOther = 0, sameAsNext = 0, fixed = 0;
  for (uint64_t i = 0; i < size; ++i) {
    ASSERT_EQ(a.sequenceOf(i), again.sequenceOf(i));
    sameAsOther += a.sequenceOf(i) == other.sequenceOf(i);
    sameAsNext += a.sequenceOf(i) == a.sequenceOf(size + i);
    fixed += a.sequenceOf(i) == i;
  }
  // Two random permutations agree in about one place.
  EXPECT_LT(sameAsOther, 10u);
  EXPECT_LT(sameAsNext, 10u);
  EXPECT_LT(fixed, 10u);
}

TEST(SampleOrder, EveryPlaceIsEquallyLikely) {
  // Over many epochs each index meets each sequence equally often; chi-square
  // of 12·12 cells has 121 degrees of freedom, deviation sqrt(2·121).
  constexpr uint64_t size = 12, epochs = 12000;
  const SampleOrder order(OrderKind::Shuffle, 7, size);
  std::vector<double> counts(size * size, 0);
  for (uint64_t sample = 0; sample < size * epochs; ++sample)
    counts[sample % size * size + order.sequenceOf(sample)] += 1;
  const double expected = static_cast<double>(epochs) / size;
  double chiSquare = 0;
  for (double count : counts)
    chiSquare += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chiSquare, 121 + 5 * std::sqrt(2 * 121.0));
  EXPECT_GT(chiSquare, 121 - 5 * std::sqrt(2 * 121.0));
}

} // namespace

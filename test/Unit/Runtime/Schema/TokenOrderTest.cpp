// The order of tokens: every token once, chunks r and 2n - 1 - r where they divide,
// and balanced work for any number of ranks.
#include "runtime/Schema/TokenOrder.h"
#include "runtime/Schema/Layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

using namespace cleave::rt;

namespace {

TEST(TokenOrder, OneBlockIsInOrder) {
  EXPECT_EQ(zigzagOrder(4, 1), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_TRUE(zigzagOrder(0, 3).empty());
}

TEST(TokenOrder, EqualChunksAreTakenFromBothEnds) {
  for (int64_t blocks : {2, 3, 8}) {
    const int64_t chunk = 5;
    std::vector<int64_t> want;
    for (int64_t r = 0; r < blocks; ++r)
      for (int64_t c : {r, 2 * blocks - 1 - r})
        for (int64_t i = 0; i < chunk; ++i)
          want.push_back(c * chunk + i);
    EXPECT_EQ(zigzagOrder(2 * blocks * chunk, blocks), want);
  }
}

TEST(TokenOrder, EveryTokenOnceAndWholeBlocksHaveEqualWork) {
  for (int64_t length = 1; length <= 70; ++length)
    for (int64_t blocks = 1; blocks <= 9; ++blocks) {
      const std::vector<int64_t> order = zigzagOrder(length, blocks);
      std::vector<int64_t> sorted = order, all(length);
      std::sort(sorted.begin(), sorted.end());
      std::iota(all.begin(), all.end(), 0);
      ASSERT_EQ(sorted, all) << length << " over " << blocks;
      // Pairs that a block's queries see. Blocks that all have their rows differ by less
      // than one query's keys from each other for each block between them.
      const int64_t block = blockSize(length, blocks);
      std::vector<int64_t> pairs;
      for (int64_t first = 0; first + block <= length; first += block) {
        ASSERT_TRUE(std::is_sorted(order.begin() + first, order.begin() + first + block));
        pairs.push_back(
            std::accumulate(order.begin() + first, order.begin() + first + block, block));
      }
      const auto [least, most] = std::minmax_element(pairs.begin(), pairs.end());
      EXPECT_LE(*most - *least, length + block * blocks) << length << " over " << blocks;
    }
}

} // namespace

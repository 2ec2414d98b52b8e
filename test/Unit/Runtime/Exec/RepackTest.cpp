// Blocks and messages against index arithmetic on the whole tensor, short and
// empty blocks included.
#include "runtime/Exec/Repack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

using namespace cleave::rt;

namespace {

std::vector<float> counting(int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(i + 1);
  return values;
}

std::byte *bytes(std::vector<float> &values) {
  return reinterpret_cast<std::byte *>(values.data());
}

TEST(Repack, BlocksAndBack) {
  for (unsigned workers : {1u, 2u})
    for (int64_t members : {1, 2, 3, 5})
      for (const CutDimension &cut : {CutDimension{1, 6, 1}, CutDimension{2, 7, 3},
                                      CutDimension{4, 1, 5}, CutDimension{3, 10, 1}}) {
        ThreadPool pool(workers);
        const CutLayout layout(cut, members, 4);
        std::vector<float> whole = counting(cut.outer * cut.full * cut.inner);
        std::vector<float> staged(layout.stagedBytes() / 4, -7), back(whole.size(), -7);
        ASSERT_TRUE(packBlocks(pool, layout, bytes(whole), bytes(staged)).ok());
        for (int64_t k = 0; k < members; ++k) {
          std::vector<float> block(layout.blockBytes() / 4, -7);
          copyBlock(layout, k, bytes(whole), bytes(block));
          for (int64_t o = 0; o < cut.outer; ++o)
            for (int64_t b = 0; b < layout.block; ++b)
              for (int64_t i = 0; i < cut.inner; ++i) {
                const int64_t row = k * layout.block + b;
                const float expected =
                    row < cut.full ? whole[(o * cut.full + row) * cut.inner + i] : 0;
                const int64_t at = (o * layout.block + b) * cut.inner + i;
                EXPECT_EQ(block[at], expected);
                EXPECT_EQ(staged[k * layout.blockBytes() / 4 + at], expected);
              }
        }
        ASSERT_TRUE(unpackGathered(pool, layout, bytes(staged), bytes(back)).ok());
        EXPECT_EQ(back, whole);
      }
}

/// [outer, first, middle, second, inner]: the block of `rank` along one of the
/// two cut dimensions, padding zero.
std::vector<float> cutWhole(const AllToAllCommand &c, const std::vector<float> &whole, bool first,
                            int64_t members, int64_t rank) {
  const int64_t f = first ? blockSize(c.first, members) : c.first;
  const int64_t s = first ? c.second : blockSize(c.second, members);
  std::vector<float> block(c.outer * f * c.middle * s * c.inner, 0);
  size_t at = 0;
  for (int64_t o = 0; o < c.outer; ++o)
    for (int64_t i = 0; i < f; ++i)
      for (int64_t m = 0; m < c.middle; ++m)
        for (int64_t j = 0; j < s; ++j)
          for (int64_t e = 0; e < c.inner; ++e, ++at) {
            const int64_t row = first ? rank * f + i : i, column = first ? j : rank * s + j;
            if (row < c.first && column < c.second)
              block[at] =
                  whole[(((o * c.first + row) * c.middle + m) * c.second + column) * c.inner + e];
          }
  return block;
}

TEST(Repack, ExchangeMovesTheCut) {
  ThreadPool pool(2);
  for (bool splitFirst : {true, false})
    for (int64_t members : {1, 2, 3})
      for (const auto &[first, second] :
           {std::pair<int64_t, int64_t>{6, 6}, {7, 5}, {1, 4}, {5, 2}}) {
        AllToAllCommand command;
        command.outer = 2;
        command.first = first;
        command.middle = 3;
        command.second = second;
        command.inner = 2;
        command.splitFirst = splitFirst;
        const ExchangeLayout layout(command, members);
        const std::vector<float> whole = counting(2 * first * 3 * second * 2);
        std::vector<std::vector<float>> sent(members);
        for (int64_t rank = 0; rank < members; ++rank) {
          std::vector<float> source = cutWhole(command, whole, !splitFirst, members, rank);
          sent[rank].assign(layout.stagedBytes() / 4, -7);
          ASSERT_TRUE(packMessages(pool, layout, bytes(source), bytes(sent[rank])).ok());
        }
        for (int64_t rank = 0; rank < members; ++rank) {
          const std::vector<float> expected = cutWhole(command, whole, splitFirst, members, rank);
          std::vector<float> received(layout.stagedBytes() / 4), target(expected.size(), -7);
          for (int64_t peer = 0; peer < members; ++peer)
            std::memcpy(bytes(received) + peer * layout.messageBytes(),
                        bytes(sent[peer]) + rank * layout.messageBytes(), layout.messageBytes());
          ASSERT_TRUE(unpackMessages(pool, layout, bytes(received), bytes(target)).ok());
          EXPECT_EQ(target, expected) << first << "x" << second << " on " << members;
        }
      }
}

} // namespace

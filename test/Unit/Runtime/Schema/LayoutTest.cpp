// Mesh coordinates and blocks, against their definitions.
#include "runtime/Schema/Layout.h"

#include <gtest/gtest.h>

using namespace cleave::rt;

namespace {

Mesh mesh234() { return {{{"a", 2}, {"b", 3}, {"c", 4}}}; }

TEST(Layout, CoordinatesAreRowMajor) {
  const Mesh mesh = mesh234();
  EXPECT_EQ(mesh.world(), 24);
  int64_t rank = 0;
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t b = 0; b < 3; ++b)
      for (int64_t c = 0; c < 4; ++c, ++rank) {
        EXPECT_EQ(mesh.coordinates(rank), (std::vector<int64_t>{a, b, c}));
        EXPECT_EQ(mesh.indexOf(rank, AxisList{2, 0}), c * 2 + a);
        EXPECT_EQ(mesh.indexOf(rank, AxisList{}), 0);
      }
}

TEST(Layout, GroupsAreOrderedByIndexAndHoldTheRank) {
  const Mesh mesh = mesh234();
  for (const AxisList &list : {AxisList{}, AxisList{1}, AxisList{2, 0}, AxisList{0, 1, 2}})
    for (int64_t rank = 0; rank < 24; ++rank) {
      const std::vector<int64_t> group = mesh.groupOf(rank, list);
      ASSERT_EQ(static_cast<int64_t>(group.size()), mesh.sizeOf(list));
      for (int64_t i = 0; i < mesh.sizeOf(list); ++i)
        EXPECT_EQ(mesh.indexOf(group[i], list), i);
      EXPECT_EQ(group[mesh.indexOf(rank, list)], rank);
    }
}

TEST(Layout, BlocksCoverEveryElementOnce) {
  for (int64_t n : {0, 1, 3, 10, 17, 251})
    for (int64_t k : {1, 2, 3, 4, 7, 16}) {
      int64_t next = 0;
      for (int64_t i = 0; i < k; ++i) {
        const Range range = blockRange(n, k, i);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.size(), blockSize(n, k));
        next = range.end;
      }
      EXPECT_EQ(next, n);
    }
}

TEST(Layout, OneRankOfEachSetOfReplicasIsPrimary) {
  const Mesh mesh = mesh234();
  const Sharding sharding{{{1}, {}}};
  const std::vector<int64_t> shape{7, 5};
  EXPECT_EQ(sharding.localShape(mesh, shape), (std::vector<int64_t>{3, 5}));
  int64_t rows = 0;
  for (int64_t rank = 0; rank < 24; ++rank)
    if (sharding.isPrimaryReplica(mesh, rank))
      rows += sharding.block(mesh, shape, rank)[0].size();
  EXPECT_EQ(rows, 7);
}

} // namespace

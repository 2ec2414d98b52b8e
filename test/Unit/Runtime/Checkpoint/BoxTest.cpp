// Boxes against element-by-element loops.
#include "runtime/Checkpoint/Box.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace cleave::rt;

namespace {

/// Flat indices of a box's elements, in row-major order of the box.
std::vector<int64_t> elementsOf(const Box &box, const Shape &shape) {
  std::vector<int64_t> indices;
  const std::vector<int64_t> strides = rowMajorStrides(shape);
  for (uint64_t i = 0; i < box.volume(); ++i) {
    uint64_t rest = i;
    int64_t flat = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      flat += (box.offset[d] + static_cast<int64_t>(rest % box.extent[d])) * strides[d];
      rest /= static_cast<uint64_t>(box.extent[d]);
    }
    indices.push_back(flat);
  }
  return indices;
}

Shape randomShape(std::mt19937 &random) {
  Shape shape(random() % 5);
  for (int64_t &size : shape)
    size = 1 + random() % 5;
  return shape;
}

Box randomBox(std::mt19937 &random, const Shape &shape) {
  Box box = Box::whole(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    box.offset[d] = random() % shape[d];
    box.extent[d] = 1 + random() % (shape[d] - box.offset[d]);
  }
  return box;
}

TEST(Box, VolumesThatOverflowAreNone) {
  EXPECT_EQ(volumeOf({}), 1u);
  EXPECT_EQ(volumeOf({3, 0, 5}), 0u);
  EXPECT_EQ(volumeOf({int64_t{1} << 32, int64_t{1} << 31}), uint64_t{1} << 63);
  EXPECT_FALSE(volumeOf({int64_t{1} << 32, int64_t{1} << 32}));
  EXPECT_EQ(volumeOf({int64_t{1} << 32, int64_t{1} << 32, 0}), 0u);
  EXPECT_FALSE(volumeOf({-1}));
}

TEST(Box, InsideIsCheckedWithoutOverflow) {
  EXPECT_TRUE((Box{{2}, {3}}).isInside({5}));
  EXPECT_FALSE((Box{{3}, {3}}).isInside({5}));
  EXPECT_FALSE((Box{{INT64_MAX}, {1}}).isInside({5}));
  EXPECT_FALSE((Box{{1}, {INT64_MAX}}).isInside({5}));
  EXPECT_FALSE((Box{{0}, {1}}).isInside({5, 5}));
}

TEST(Box, RunsCopyExactlyTheRegion) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    const Shape shape = randomShape(random);
    const Box source = randomBox(random, shape), target = randomBox(random, shape);
    const std::optional<Box> region = intersection(source, target);
    if (!region)
      continue;
    const std::vector<int64_t> from = elementsOf(source, shape), wanted = elementsOf(target, shape);
    const std::vector<int64_t> common = elementsOf(*region, shape);
    std::vector<int64_t> out(wanted.size(), -1);
    forEachRun(*region, source, rowMajorStrides(source.extent), target,
               rowMajorStrides(target.extent), [&](int64_t a, int64_t b, int64_t count) {
                 for (int64_t i = 0; i < count; ++i)
                   out.at(b + i) = from.at(a + i);
               });
    for (size_t i = 0; i < out.size(); ++i) {
      const bool inside = std::ranges::find(common, wanted[i]) != common.end();
      ASSERT_EQ(out[i], inside ? wanted[i] : -1);
    }
  }
}

TEST(Box, FlatRangesAreCoveredInOrder) {
  std::mt19937 random(12);
  for (int round = 0; round < 1000; ++round) {
    const Shape shape = randomShape(random);
    const uint64_t volume = *volumeOf(shape);
    const uint64_t begin = random() % (volume + 1), end = begin + random() % (volume - begin + 1);
    const std::vector<Box> boxes = boxesOfFlatRange(shape, begin, end);
    std::vector<int64_t> covered;
    for (const Box &box : boxes) {
      ASSERT_TRUE(box.isInside(shape));
      std::ranges::copy(elementsOf(box, shape), std::back_inserter(covered));
    }
    std::vector<int64_t> expected(end - begin);
    std::iota(expected.begin(), expected.end(), static_cast<int64_t>(begin));
    ASSERT_EQ(covered, expected);
    ASSERT_LE(boxes.size(), std::max<size_t>(1, 2 * shape.size()));
  }
}

} // namespace

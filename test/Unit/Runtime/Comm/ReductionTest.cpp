// Sums and maxima of any number of buffers, at any address and of any length, against
// one element after the other.
#include "runtime/Comm/Local/Reduction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace cleave::rt;

namespace {

float combined(const std::vector<std::vector<float>> &buffers, size_t i, ReduceKind kind) {
  float value = buffers[0][i];
  for (size_t r = 1; r < buffers.size(); ++r) {
    const float other = buffers[r][i];
    if (kind == ReduceKind::Sum)
      value = value + other;
    else if (other > value || std::isnan(other))
      value = other;
  }
  return value;
}

void expectSame(float got, float wanted) {
  if (std::isnan(wanted))
    EXPECT_TRUE(std::isnan(got));
  else
    EXPECT_EQ(got, wanted);
}

class Reduction : public ::testing::TestWithParam<std::tuple<ReduceKind, size_t, size_t>> {
protected:
  /// With a NaN here and there, some of them alone in their column.
  static std::vector<std::vector<float>> numbers(size_t buffers, size_t count) {
    std::mt19937 random(static_cast<unsigned>(31 * buffers + count));
    std::normal_distribution<float> normal;
    std::vector<std::vector<float>> result(buffers, std::vector<float>(count));
    for (std::vector<float> &buffer : result)
      for (float &value : buffer)
        value = random() % 50 == 0 ? std::numeric_limits<float>::quiet_NaN() : normal(random);
    return result;
  }
};

TEST_P(Reduction, GoesIntoAllTargetsWhichMayBeSources) {
  const auto [kind, buffers, count] = GetParam();
  for (size_t begin : {size_t(0), size_t(1)}) { // at a cache line's start and not
    const auto given = numbers(buffers, count);
    auto held = given;
    std::vector<const float *> sources;
    std::vector<float *> targets;
    for (std::vector<float> &buffer : held) {
      sources.push_back(buffer.data() + begin);
      targets.push_back(buffer.data() + begin);
    }
    reduceTo(targets, sources, count - begin, kind);
    for (const std::vector<float> &buffer : held)
      for (size_t i = 0; i < count; ++i)
        expectSame(buffer[i],
                   i < begin ? given[&buffer - held.data()][i] : combined(given, i, kind));
  }
}

TEST_P(Reduction, TakesAnyNumberOfSourcesInTheirOrder) {
  const auto [kind, buffers, count] = GetParam();
  const auto given = numbers(buffers, count);
  auto held = given;
  std::vector<float> &accumulator = held[0];
  reduceInOrder(accumulator.data(), count, buffers, kind, [&](size_t i) { return held[i].data(); });
  for (size_t i = 0; i < count; ++i)
    expectSame(accumulator[i], combined(given, i, kind));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Reduction,
                         ::testing::Combine(::testing::Values(ReduceKind::Sum, ReduceKind::Max),
                                            ::testing::Values(1, 2, 3, 16, 17, 40),
                                            ::testing::Values(1, 15, 16, 17, 1000)));

} // namespace

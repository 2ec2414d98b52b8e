//===- PipelineTest.cpp - A step played out, and layers dealt out -----------===//

#include "lib/CostModel/Pipeline.h"
#include <gtest/gtest.h>

namespace cleave::cost {
namespace {

std::vector<StageTime> equal(int64_t stages, double forward, double backward, double weights = 0) {
  return std::vector<StageTime>(stages, {Seconds(forward), Seconds(backward), Seconds(weights)});
}

TEST(Pipeline, OneForwardOneBackwardTakesItsClosedForm) {
  // (m + p - 1)(f + b)
  for (int64_t p : {1, 2, 4, 8})
    for (int64_t m : {8, 16, 33}) {
      const PipelineTimes times = playPipeline("1f1b", p, equal(p, 1, 2), m, {}, {});
      EXPECT_NEAR(times.makespan.value, static_cast<double>(m + p - 1) * 3, 1e-9);
      EXPECT_EQ(times.inFlight.front(), std::min(p, m));
    }
}

TEST(Pipeline, InterleavingDividesTheBubble) {
  // m v (f + b) + (p - 1)(f + b), m a multiple of p
  const PipelineTimes times = playPipeline("interleaved", 4, equal(8, 1, 2), 16, {}, {});
  EXPECT_NEAR(times.makespan.value, 16 * 2 * 3 + 3 * 3, 1e-9);
}

TEST(Pipeline, TheSlowestStageSetsThePace) {
  std::vector<StageTime> stages = equal(4, 1, 2);
  stages[3] = {Seconds(2), Seconds(4), Seconds(0)};
  const PipelineTimes times = playPipeline("1f1b", 4, stages, 100, {}, {});
  EXPECT_NEAR(times.makespan.value, 100 * 6 + 3 * 3, 1e-9);
  EXPECT_NEAR(times.busy[3].value, 600, 1e-9);
}

TEST(Pipeline, ZeroBubbleKeepsWeightsForLater) {
  // zb-h1: idle (p - 1)(f + b - w) with b whole; zb-2p nearly none.
  const PipelineTimes h1 = playPipeline("zb-h1", 4, equal(4, 1, 2, 1), 12, {}, {});
  EXPECT_NEAR(h1.makespan.value, 12 * 3 + 3 * (1 + 1 - 1), 1e-9);
  const PipelineTimes full = playPipeline("zb-2p", 4, equal(4, 1, 2, 1), 12, {}, {});
  EXPECT_LT(full.makespan.value, 12 * 3 + 0.5);
  // Nothing ends behind it.
  for (Seconds end : full.lastBackwardEnd)
    EXPECT_LE(end.value, full.makespan.value + 1e-9);
}

TEST(Dealing, BlocksInEqualNumbers) {
  // Embedding, 8 blocks, head.
  const std::vector<Seconds> costs(10, Seconds(1));
  EXPECT_EQ(dealLayers(costs, 4, false), (std::vector<int64_t>{0, 3, 5, 7, 10}));
}

TEST(Dealing, OneBlockLessAtBothEnds) {
  // 22 blocks on 8 stages: 2, 3, …, 3, 2 (Megatron-LM).
  const std::vector<int64_t> begins = dealLayers(std::vector<Seconds>(24, Seconds(1)), 8, false);
  EXPECT_EQ(begins[1], 3);
  EXPECT_EQ(begins[2], 6);
  EXPECT_EQ(begins[7], 21);
  EXPECT_EQ(begins[8], 24);
}

TEST(Dealing, BalancedStagesAreAsFastAsCanBe) {
  std::vector<Seconds> costs(10, Seconds(1));
  costs.back() = Seconds(3);
  const std::vector<int64_t> begins = dealLayers(costs, 4, true);
  ASSERT_EQ(begins.size(), 5u);
  for (size_t s = 0; s + 1 < begins.size(); ++s) {
    double sum = 0;
    for (int64_t i = begins[s]; i < begins[s + 1]; ++i)
      sum += costs[i].value;
    EXPECT_LE(sum, 3 + 1e-6);
  }
}

} // namespace
} // namespace cleave::cost

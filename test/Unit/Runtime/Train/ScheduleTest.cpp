// The rate at every step, with the numbers of E07.
#include "runtime/Train/Schedule.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace cleave::rt;

namespace {

LearningRateRecipe rate(ScheduleKind kind) {
  LearningRateRecipe recipe;
  recipe.kind = kind;
  recipe.peak = 3e-4;
  recipe.final = 3e-5;
  recipe.warmup = 10;
  recipe.total = 100;
  return recipe;
}

TEST(Schedule, CosineIsThePublishedCurve) {
  const StatusOr<Schedule> schedule = Schedule::create(rate(ScheduleKind::Cosine), 1);
  ASSERT_TRUE(schedule.ok());
  EXPECT_NEAR(schedule->rateAt(1), 3e-5, 1e-18);
  EXPECT_NEAR(schedule->rateAt(10), 3e-4, 1e-18);
  EXPECT_NEAR(schedule->rateAt(50), 1.884425e-4, 5e-11);
  EXPECT_NEAR(schedule->rateAt(51), 1.837884e-4, 5e-11);
  EXPECT_NEAR(schedule->rateAt(55), 1.65e-4, 1e-18);
  EXPECT_EQ(schedule->rateAt(100), 3e-5);
  EXPECT_EQ(schedule->rateAt(1000), 3e-5);
}

TEST(Schedule, OtherShapes) {
  const Schedule linear = *Schedule::create(rate(ScheduleKind::Linear), 1);
  EXPECT_NEAR(linear.rateAt(55), 1.65e-4, 1e-18);
  EXPECT_EQ(linear.rateAt(100), 3e-5);
  const Schedule constant = *Schedule::create(rate(ScheduleKind::Constant), 1);
  EXPECT_EQ(constant.rateAt(100000), 3e-4);
  EXPECT_NEAR(constant.rateAt(5), 1.5e-4, 1e-18);
  LearningRateRecipe recipe = rate(ScheduleKind::WarmupStableDecay);
  recipe.decay = 20;
  const Schedule wsd = *Schedule::create(recipe, 1);
  EXPECT_EQ(wsd.rateAt(80), 3e-4);
  EXPECT_NEAR(wsd.rateAt(90), 1.65e-4, 1e-18);
  EXPECT_EQ(wsd.rateAt(100), 3e-5);
}

TEST(Schedule, TotalIsTheRunWhenLeftOut) {
  LearningRateRecipe recipe = rate(ScheduleKind::Linear);
  recipe.total.reset();
  recipe.warmup = 0;
  const Schedule schedule = *Schedule::create(recipe, 40);
  EXPECT_NEAR(schedule.rateAt(20), 1.65e-4, 1e-18);
  EXPECT_EQ(schedule.recipe().total, 40u);
  recipe.warmup = 50;
  EXPECT_EQ(Schedule::create(recipe, 40).error().kind, "recipe.conflict");
  recipe.kind = ScheduleKind::Constant;
  EXPECT_TRUE(Schedule::create(recipe, 40).ok());
}

TEST(Schedule, EveryRateIsFinite) {
  for (ScheduleKind kind : {ScheduleKind::Constant, ScheduleKind::Linear, ScheduleKind::Cosine,
                            ScheduleKind::WarmupStableDecay})
    for (uint64_t warmup : {0, 1, 5})
      for (uint64_t total : {5, 6}) {
        LearningRateRecipe recipe = rate(kind);
        recipe.warmup = warmup;
        recipe.total = total;
        if (kind == ScheduleKind::WarmupStableDecay)
          recipe.decay = total - warmup;
        const Schedule schedule = *Schedule::create(recipe, total);
        for (uint64_t step = 1; step <= 8; ++step) {
          const double value = schedule.rateAt(step);
          ASSERT_TRUE(value > 0 && value <= 3e-4) << warmup << " " << total << " " << step;
        }
      }
}

} // namespace

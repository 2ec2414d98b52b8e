// What a resumed run may change (E07) and what it may not.
#include "runtime/Train/Resume.h"

#include "runtime/Train/Schedule.h"

#include <gtest/gtest.h>

using namespace cleave::rt;

namespace {

Recipe baseRecipe() {
  Recipe recipe;
  recipe.globalBatch = 8;
  recipe.sequenceLength = 32;
  recipe.learningRate.warmup = 10;
  return recipe;
}

RunState savedAt(uint64_t step, const Recipe &recipe, uint64_t steps) {
  RunState state;
  state.step = step;
  state.seed = recipe.seed;
  state.recipe = *recipeForCheckpoint(recipe, steps);
  state.dataDigest = "d";
  return state;
}

ResumeRequest request(const Recipe &recipe, uint64_t steps) {
  ResumeRequest result;
  result.recipe = recipe;
  result.steps = steps;
  result.dataDigest = "d";
  return result;
}

std::string kindOf(const StatusOr<Recipe> &status) {
  return status.ok() ? "" : status.error().kind;
}

TEST(Resume, TheSameRunGoesOn) {
  const RunState saved = savedAt(50, baseRecipe(), 100);
  EXPECT_EQ(kindOf(checkResume(saved, request(baseRecipe(), 100))), "");
  // A longer run keeps the schedule it was started with.
  const StatusOr<Recipe> longer = checkResume(saved, request(baseRecipe(), 200));
  ASSERT_TRUE(longer.ok());
  EXPECT_EQ(longer->learningRate.total, 100u);
  Recipe otherMicro = baseRecipe();
  otherMicro.microBatch = 2;
  EXPECT_EQ(kindOf(checkResume(saved, request(otherMicro, 100))), "");
}

TEST(Resume, AChangedScheduleIsRefusedUnlessAllowed) {
  const RunState saved = savedAt(50, baseRecipe(), 100);
  Recipe changed = baseRecipe();
  changed.learningRate.total = 120;
  ResumeRequest now = request(changed, 120);
  const StatusOr<Recipe> status = checkResume(saved, now);
  EXPECT_EQ(kindOf(status), "resume.schedule_changed");
  EXPECT_NE(status.error().message.find("total 100"), std::string::npos);
  EXPECT_NE(status.error().message.find("total 120"), std::string::npos);
  ASSERT_EQ(status.error().notes.size(), 1u);
  now.allowScheduleChange = true;
  EXPECT_EQ(kindOf(checkResume(saved, now)), "");
  changed = baseRecipe();
  changed.learningRate.peak = 1e-3;
  EXPECT_EQ(kindOf(checkResume(saved, request(changed, 100))), "resume.schedule_changed");
}

TEST(Resume, AConstantRateHasNoTotalToChange) {
  Recipe recipe = baseRecipe();
  recipe.learningRate.kind = ScheduleKind::Constant;
  const RunState saved = savedAt(5, recipe, 10);
  recipe.learningRate.total = 500;
  EXPECT_EQ(kindOf(checkResume(saved, request(recipe, 20))), "");
}

TEST(Resume, OtherChangesAreNamed) {
  const RunState saved = savedAt(50, baseRecipe(), 100);
  Recipe recipe = baseRecipe();
  recipe.globalBatch = 16;
  EXPECT_EQ(kindOf(checkResume(saved, request(recipe, 100))), "resume.batch_changed");
  recipe = baseRecipe();
  recipe.sequenceLength = 64;
  EXPECT_EQ(kindOf(checkResume(saved, request(recipe, 100))), "resume.batch_changed");
  recipe = baseRecipe();
  recipe.seed = 2;
  EXPECT_EQ(kindOf(checkResume(saved, request(recipe, 100))), "resume.seed_changed");
  recipe = baseRecipe();
  recipe.order = DataOrder::Sequential;
  EXPECT_EQ(kindOf(checkResume(saved, request(recipe, 100))), "resume.order_changed");
  ResumeRequest now = request(baseRecipe(), 100);
  now.dataDigest = "other";
  EXPECT_EQ(kindOf(checkResume(saved, now)), "resume.data_changed");
  now.allowDataChange = true;
  EXPECT_EQ(kindOf(checkResume(saved, now)), "");
}

} // namespace

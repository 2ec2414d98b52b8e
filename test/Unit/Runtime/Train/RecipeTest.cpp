// Defaults, every key, refusals, `--set`, and the echo.
#include "runtime/Train/Recipe.h"

#include <gtest/gtest.h>

using namespace cleave::rt;

namespace {

StatusOr<Recipe> recipeOf(const std::string &text) {
  JsonReadOptions options;
  options.file = "r.json";
  StatusOr<JsonValue> json = parseJson(text, options);
  EXPECT_TRUE(json.ok());
  return parseRecipe(*json, "r.json");
}

std::string kindOf(const std::string &text) {
  const StatusOr<Recipe> recipe = recipeOf(text);
  return recipe.ok() ? "" : recipe.error().kind;
}

TEST(Recipe, EmptyGivesTheDefaults) {
  const StatusOr<Recipe> recipe = recipeOf("{}");
  ASSERT_TRUE(recipe.ok());
  EXPECT_EQ(*recipe, Recipe());
  EXPECT_FALSE(recipe->sequenceLength);
  EXPECT_EQ(recipe->optimizer.beta2, 0.95);
  EXPECT_EQ(recipe->learningRate.warmup, 0u);
  EXPECT_EQ(recipe->learningRate.final, 0.0);
  EXPECT_FALSE(recipe->learningRate.total);
}

std::vector<std::string> suggestionsFor(const std::string &text) {
  const StatusOr<Recipe> recipe = recipeOf(text);
  return recipe.ok() ? std::vector<std::string>() : recipe.error().suggestions;
}

TEST(Recipe, NamesOfOtherTrainersLeadToOurs) {
  using Suggestions = std::vector<std::string>;
  EXPECT_EQ(suggestionsFor(R"({"lr": 1e-3})"), Suggestions{"learning_rate.peak"});
  EXPECT_EQ(suggestionsFor(R"({"global_batch_size": 8})"), Suggestions{"global_batch"});
  EXPECT_EQ(suggestionsFor(R"({"max_steps": 8})"), Suggestions{"--steps of the training binary"});
  EXPECT_EQ(suggestionsFor(R"({"globl_batch": 8})"), Suggestions{"global_batch"});
  EXPECT_EQ(suggestionsFor(R"({"learning_rate": 0.001})"), Suggestions{"learning_rate.peak=0.001"});
  EXPECT_EQ(kindOf(R"({"learning_rate": 0.001})"), "recipe.wrong_type");
}

const char *const everyKey = R"({ "version": 1, "sequence_length": 2048, "global_batch": 512,
  "micro_batch": null, "precision": "bf16",
  "optimizer": {"type": "adamw", "beta1": 0.8, "beta2": 0.99, "eps": 1e-6, "weight_decay": 0.2},
  "learning_rate": {"schedule": "wsd", "peak": 1e-3, "final": 3e-5, "warmup": 2000,
                    "total": 100000, "decay": 5000},
  "clip_norm": 2, "dropout": 0, "seed": 7, "tokens": 15e12,
  "data": {"order": "sequential", "documents": "off"}, "z_loss": 1e-4, "init": {"std": 0.02} })";

TEST(Recipe, ReadsEveryKeyAndEchoesIt) {
  const StatusOr<Recipe> recipe = recipeOf(everyKey);
  ASSERT_TRUE(recipe.ok()) << renderText(recipe.error());
  EXPECT_EQ(recipe->sequenceLength, 2048u);
  EXPECT_FALSE(recipe->microBatch);
  EXPECT_EQ(recipe->precision, Precision::Bf16);
  EXPECT_EQ(recipe->optimizer.epsilon, 1e-6);
  EXPECT_EQ(recipe->learningRate.kind, ScheduleKind::WarmupStableDecay);
  EXPECT_EQ(recipe->learningRate.decay, 5000u);
  EXPECT_EQ(recipe->dropout, 0.0);
  EXPECT_EQ(recipe->tokens, 15'000'000'000'000u);
  EXPECT_EQ(recipe->order, DataOrder::Sequential);
  EXPECT_EQ(recipe->initStd, 0.02);
  for (const Recipe &original : {*recipe, Recipe()}) {
    const std::string echo = toString(recipeToJson(original), 2);
    const StatusOr<Recipe> again = recipeOf(echo);
    ASSERT_TRUE(again.ok()) << renderText(again.error());
    EXPECT_EQ(*again, original);
  }
}

TEST(Recipe, RefusesByNameAndPlace) {
  const StatusOr<Recipe> unknown = recipeOf("{\"optimizer\": {\n \"betal\": 0.9}}");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, "recipe.unknown_key");
  EXPECT_EQ(unknown.error().where.toString(), "r.json:2:2");
  EXPECT_EQ(unknown.error().suggestions.at(0), "beta1");
  EXPECT_EQ(kindOf("{\"global_batch\": 0}"), "recipe.out_of_range");
  EXPECT_EQ(kindOf("{\"global_batch\": 8.0}"), "recipe.wrong_type");
  EXPECT_EQ(kindOf("{\"optimizer\": {\"beta1\": 1}}"), "recipe.out_of_range");
  EXPECT_EQ(kindOf("{\"optimizer\": {\"type\": \"sgd\"}}"), "recipe.unknown_value");
  EXPECT_EQ(kindOf("{\"precision\": \"fp16\"}"), "recipe.unknown_value");
  EXPECT_EQ(kindOf("{\"tokens\": 1.5}"), "recipe.wrong_type");
  // In the kernels' float32 this is no number, or zero.
  EXPECT_EQ(kindOf("{\"learning_rate\": {\"peak\": 1e39}}"), "recipe.out_of_range");
  EXPECT_EQ(kindOf("{\"optimizer\": {\"weight_decay\": 1e300}}"), "recipe.out_of_range");
  EXPECT_EQ(kindOf("{\"clip_norm\": 1e39}"), "recipe.out_of_range");
  EXPECT_EQ(kindOf("{\"optimizer\": {\"eps\": 1e-50}}"), "recipe.out_of_range");
  EXPECT_EQ(kindOf("{\"dropout\": -0.1}"), "recipe.out_of_range");
  EXPECT_EQ(kindOf("{\"data\": {\"documents\": \"mask\"}}"), "recipe.unknown_value");
  EXPECT_EQ(kindOf("{\"version\": 2}"), "recipe.version_unsupported");
  EXPECT_EQ(kindOf("[]"), "recipe.wrong_type");
  EXPECT_EQ(kindOf(R"({"learning_rate": {"schedule": "wsd"}})"), "recipe.missing_key");
  EXPECT_EQ(kindOf(R"({"learning_rate": {"schedule": "linear", "decay": 3}})"), "recipe.conflict");
  EXPECT_EQ(kindOf(R"({"learning_rate": {"warmup": 11, "total": 10}})"), "recipe.conflict");
}

TEST(Recipe, SettingsOverrideTheFile) {
  JsonValue json = *parseJson(R"({"seed": 3, "optimizer": {"beta1": 0.5}})");
  for (const char *setting : {"optimizer.beta2=0.5", "learning_rate.peak=1e-3", "seed=4",
                              "precision=bf16", "data.order=sequential", "dropout=null"})
    ASSERT_TRUE(applySetting(json, setting).ok()) << setting;
  const StatusOr<Recipe> recipe = parseRecipe(json, "r.json");
  ASSERT_TRUE(recipe.ok()) << renderText(recipe.error());
  EXPECT_EQ(recipe->optimizer.beta1, 0.5);
  EXPECT_EQ(recipe->optimizer.beta2, 0.5);
  EXPECT_EQ(recipe->learningRate.peak, 1e-3);
  EXPECT_EQ(recipe->seed, 4u);
  EXPECT_EQ(recipe->precision, Precision::Bf16);
  EXPECT_EQ(recipe->order, DataOrder::Sequential);
}

TEST(Recipe, BadSettingsAreRefusedWithoutAFalsePlace) {
  JsonValue json = *parseJson("{\"seed\": 3}");
  for (const char *setting : {"seed", "=3", ".a=1", "a.=1", "a..b=1", "seed.x=1"})
    EXPECT_EQ(applySetting(json, setting).error().kind, "recipe.bad_setting") << setting;
  ASSERT_TRUE(applySetting(json, "sede=1").ok());
  const StatusOr<Recipe> recipe = parseRecipe(json, "r.json");
  EXPECT_EQ(recipe.error().kind, "recipe.unknown_key");
  EXPECT_TRUE(recipe.error().where.empty());
  EXPECT_EQ(recipe.error().suggestions.at(0), "seed");
}

} // namespace

// The spellings of rope scaling and the frequencies that follow.
#include "lib/Frontend/Rope.h"
#include "TestConfigs.h"

#include <cmath>

using namespace cleave;
using namespace cleave::frontend;
using namespace cleave::frontend::test;

namespace {

/// The normal form of a config that holds these rope keys, or the reason why it can't be
/// trained.
rt::StatusOr<Rope> readRopeOf(const std::string &keys) {
  rt::StatusOr<rt::JsonValue> root = rt::parseJson("{" + keys + "}", {.file = "rope.json"});
  EXPECT_TRUE(root.ok()) << keys;
  CLEAVE_RT_ASSIGN_OR_RETURN(Config config, Config::read(*root, "rope.json", {ropeKeys()}));
  CLEAVE_RT_ASSIGN_OR_RETURN(const Rope rope, readRope(config));
  if (!config.untrained.empty())
    return config.untrained.front();
  return rope;
}

constexpr const char *kLlama31 =
    R"("rope_theta": 500000.0, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0,
       "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"})";

TEST(Rope, withoutScaling) {
  auto rope = readRopeOf(R"("rope_theta": 10000, "rope_scaling": null)");
  ASSERT_TRUE(rope.ok());
  std::vector<double> f = ropeFrequencies(*rope, 16);
  ASSERT_EQ(f.size(), 8u);
  for (int i = 0; i < 8; ++i)
    EXPECT_NEAR(f[i], std::exp(-std::log(10000.0) * 2 * i / 16), 1e-15);
}

TEST(Rope, llama31FrequenciesArePublishedOnes) {
  auto rope = readRopeOf(kLlama31);
  ASSERT_TRUE(rope.ok());
  Rope plain;
  plain.theta = 500000;
  std::vector<double> f = ropeFrequencies(*rope, 128), base = ropeFrequencies(plain, 128);
  ASSERT_EQ(f.size(), 64u);
  for (int i = 0; i <= 28; ++i)
    EXPECT_EQ(f[i], base[i]) << i;
  for (int i = 29; i <= 34; ++i) {
    EXPECT_LT(f[i], base[i]) << i;
    EXPECT_GT(f[i], base[i] / 8) << i;
  }
  for (int i = 35; i <= 63; ++i)
    EXPECT_DOUBLE_EQ(f[i], base[i] / 8) << i;
  EXPECT_NEAR(base[32], 1.414214e-3, 5e-10);
  EXPECT_NEAR(f[32], 5.248462e-4, 5e-11);
  EXPECT_NEAR(base[63], 2.455141e-6, 5e-13);
  EXPECT_NEAR(f[63], 3.068926e-7, 5e-14);
}

TEST(Rope, theThreeSpellingsAreOne) {
  auto a = readRopeOf(R"("rope_theta": 5000, "rope_scaling": {"type": "linear", "factor": 2})");
  auto b = readRopeOf(R"("rope_theta": 5000,
                         "rope_scaling": {"rope_type": "linear", "factor": 2.0})");
  auto c =
      readRopeOf(R"("rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 5000})");
  auto d = readRopeOf(R"("rope_theta": 5000, "rope_parameters": {"type": "linear", "factor": 2},
                         "rope_scaling": {"type": "linear", "rope_type": "linear", "factor": 2})");
  ASSERT_TRUE(a.ok() && b.ok() && c.ok() && d.ok());
  EXPECT_EQ(*a, *b);
  EXPECT_EQ(*a, *c);
  EXPECT_EQ(*a, *d);
  std::vector<double> f = ropeFrequencies(*a, 4);
  EXPECT_DOUBLE_EQ(f[0], 0.5);
  EXPECT_DOUBLE_EQ(f[1], 0.5 / std::sqrt(5000.0));
}

TEST(Rope, parametersMayLeaveOutTheirKind) {
  auto rope = readRopeOf(R"("rope_parameters": {"rope_theta": 1000000.0})");
  ASSERT_TRUE(rope.ok());
  EXPECT_EQ(rope->kind, RopeKind::Default);
  EXPECT_EQ(rope->theta, 1e6);
}

// Llama 4 has no band between the frequencies that are kept and those that are divided.
TEST(Rope, llama3MayHaveNoBand) {
  auto rope = readRopeOf(R"("rope_theta": 500000, "rope_scaling": {"rope_type": "llama3",
      "factor": 16, "low_freq_factor": 1, "high_freq_factor": 1,
      "original_max_position_embeddings": 8192})");
  ASSERT_TRUE(rope.ok());
  Rope plain;
  plain.theta = 500000;
  std::vector<double> f = ropeFrequencies(*rope, 128), base = ropeFrequencies(plain, 128);
  for (int i = 0; i < 64; ++i)
    EXPECT_DOUBLE_EQ(f[i], 8192 * base[i] > 2 * M_PI ? base[i] : base[i] / 16) << i;
}

// DeepSeek V3: 10 to 23 of 32 pairs are blended; gpt-oss: 8.09 to 17.40 of 32, not rounded.
TEST(Rope, yarnBlendsABandOfPairs) {
  auto deepSeek = readRopeOf(R"("rope_theta": 10000, "rope_scaling": {"type": "yarn",
      "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
      "original_max_position_embeddings": 4096})");
  ASSERT_TRUE(deepSeek.ok());
  EXPECT_DOUBLE_EQ(ropeScoreFactor(*deepSeek), 1);
  Rope plain;
  std::vector<double> f = ropeFrequencies(*deepSeek, 64), base = ropeFrequencies(plain, 64);
  for (int i = 0; i < 32; ++i) {
    const double ramp = std::clamp((i - 10) / 13.0, 0.0, 1.0);
    EXPECT_NEAR(f[i], base[i] * (1 - ramp) + base[i] / 40 * ramp, 1e-15) << i;
  }
  auto oss = readRopeOf(R"("rope_theta": 150000, "rope_scaling": {"rope_type": "yarn",
      "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "truncate": false,
      "original_max_position_embeddings": 4096})");
  ASSERT_TRUE(oss.ok());
  EXPECT_NEAR(ropeScoreFactor(*oss), std::pow(0.1 * std::log(32.0) + 1, 2), 1e-15);
  plain.theta = 150000;
  f = ropeFrequencies(*oss, 64), base = ropeFrequencies(plain, 64);
  EXPECT_EQ(f[8], base[8]);
  EXPECT_DOUBLE_EQ(f[18], base[18] / 32);
  const double first = 64 * std::log(4096 / (64 * M_PI)) / (2 * std::log(150000)),
               last = 64 * std::log(4096 / (2 * M_PI)) / (2 * std::log(150000));
  const double ramp = (12 - first) / (last - first);
  EXPECT_NEAR(f[12], base[12] * (1 - ramp) + base[12] / 32 * ramp, 1e-15);
  EXPECT_NEAR(first, 8.09, 0.01);
  EXPECT_NEAR(last, 17.40, 0.01);
}

struct Refusal {
  const char *keys;
  const char *kind;
};

TEST(Rope, refusals) {
  const Refusal refusals[] = {
      {R"("rope_scaling": {"type": "foo", "factor": 2})", "config.rope_unknown"},
      {R"("rope_scaling": {"type": "mrope", "factor": 2})", "config.rope_unsupported"},
      {R"("rope_scaling": {"type": "yarn", "factor": 2})", "config.missing_key"},
      {R"("rope_scaling": {"type": "yarn", "factor": 2, "truncate": 1,
          "original_max_position_embeddings": 32})",
       "config.wrong_type"},
      {R"("rope_scaling": {"rope_type": "dynamic", "factor": 2})", "config.rope_unsupported"},
      {R"("rope_scaling": {"rope_type": "longrope"})", "config.rope_unsupported"},
      {R"("rope_scaling": {"type": "linear", "rope_type": "llama3", "factor": 2})",
       "config.conflict"},
      {R"("rope_scaling": {"type": "linear"})", "config.missing_key"},
      {R"("rope_scaling": {"factor": 2})", "config.missing_key"},
      {R"("rope_scaling": {})", "config.missing_key"},
      {R"("rope_scaling": {"type": "linear", "factor": null})", "config.missing_key"},
      {R"("rope_scaling": {"type": "linear", "factor": "2"})", "config.wrong_type"},
      {R"("rope_scaling": {"type": "linear", "factor": 0})", "config.out_of_range"},
      {R"("rope_scaling": {"type": 2})", "config.wrong_type"},
      {R"("rope_scaling": "linear")", "config.wrong_type"},
      {R"("rope_theta": -1)", "config.out_of_range"},
      {R"("rope_theta": 10000, "rope_parameters": {"rope_theta": 500000})", "config.conflict"},
      {R"("rope_scaling": {"type": "linear", "factor": 2},
          "rope_parameters": {"rope_type": "linear", "factor": 4})",
       "config.conflict"},
      {R"("rope_parameters": {"full_attention": {"rope_theta": 1000000}})",
       "config.rope_unsupported"},
      {R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
          "high_freq_factor": 3, "original_max_position_embeddings": 8192})",
       "config.out_of_range"},
  };
  for (const Refusal &refusal : refusals) {
    auto rope = readRopeOf(refusal.keys);
    ASSERT_EQ(kindOf(rope), refusal.kind) << refusal.keys;
    EXPECT_GT(rope.error().where.line, 0) << refusal.keys;
    EXPECT_FALSE(rope.error().given.empty()) << refusal.keys;
    EXPECT_FALSE(rope.error().rule.empty()) << refusal.keys;
    EXPECT_FALSE(rope.error().suggestions.empty()) << refusal.keys;
  }
}

TEST(Rope, membersThatNothingReadsAreReported) {
  auto model = readEdited("t0", [](rt::JsonValue &c) {
    c.set("rope_scaling", json(R"({"type": "linear", "factor": 2, "mscale": 0.7})"));
  });
  ASSERT_TRUE(model.ok());
  EXPECT_TRUE(isUnused(*model, "rope_scaling.mscale"));
  EXPECT_EQ(model->notes.size(), 1u);
}

} // namespace

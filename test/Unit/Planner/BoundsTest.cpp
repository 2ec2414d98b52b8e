//===- BoundsTest.cpp - No bound is above what it bounds ----------------------===//

#include "Setting.h"
#include "lib/Planner/Sharings.h"
#include <gtest/gtest.h>
#include <random>

namespace cleave {
namespace {

constexpr const char *kModels[] = {
    // Stages of many sizes; head and embedding outweigh a layer.
    R"({"model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 30,
  "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 4096,
  "vocab_size": 128000, "max_position_embeddings": 8192, "tie_word_embeddings": true})",
    // Two kinds of layers, one after the other.
    R"({"model_type": "deepseek_v3", "hidden_size": 512, "num_hidden_layers": 14,
  "num_attention_heads": 8, "num_key_value_heads": 8, "intermediate_size": 4096,
  "moe_intermediate_size": 256, "n_routed_experts": 16, "n_shared_experts": 1,
  "num_experts_per_tok": 2, "first_k_dense_replace": 3, "q_lora_rank": 128, "kv_lora_rank": 64,
  "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "n_group": 2, "topk_group": 1,
  "vocab_size": 8000, "max_position_embeddings": 4096, "tie_word_embeddings": false})",
    // Few layers.
    R"({"model_type": "gpt2", "hidden_size": 768, "num_hidden_layers": 7,
  "num_attention_heads": 12, "vocab_size": 50257, "max_position_embeddings": 2048})",
};

/// Looks at some layouts of a space.
class BoundsChecker {
public:
  BoundsChecker(const SearchProblem &problem, unsigned seed)
      : problem(problem), space(problem), pricing(problem), sharings(problem, space, pricing),
        random(seed) {}

  void run() {
    space.families([&](const Choice &family) {
      space.groups(family, [&](const Choice &group) {
        if (random() % 6 == 0)
          checkGroup(family, group);
      });
    });
  }

  int checked = 0;
  /// Of the step, that a layout's bound comes to, summed.
  double reached = 0;

private:
  void checkGroup(const Choice &family, const Choice &group) {
    Sharings::Classes all;
    space.waysToShare(group, [&](const Choice &way) { all.set(Sharings::classOf(way)); });
    const double ofFamily = pricing.familyBound(family);
    const auto shares = sharings.leastShares(group, all);
    const double ofGroup = pricing.groupBound(group, shares);
    space.pipelines(group, [&](const Choice &pipeline) {
      const double ofPipeline = pricing.pipelineBound(pipeline, shares);
      space.sharings(pipeline, [&](const Choice &choice) {
        if (random() % 5 != 0)
          return;
        const PricedChoice priced = price(problem, choice);
        const double bound = sharings.boundOf(choice);
        ++checked;
        reached += bound / priced.seconds();
        EXPECT_LE(ofFamily, priced.seconds()) << textOf(choice);
        EXPECT_LE(ofGroup, priced.seconds()) << textOf(choice);
        EXPECT_LE(ofPipeline, priced.seconds()) << textOf(choice);
        EXPECT_LE(bound, priced.seconds()) << textOf(choice);
        EXPECT_EQ(bound, pricing.bound(choice)) << textOf(choice);
        EXPECT_LE(pricing.leastMemoryOfWay(choice), priced.bytes()) << textOf(choice);
      });
    });
  }

  const SearchProblem &problem;
  const SearchSpace space;
  Pricing pricing;
  Sharings sharings;
  std::mt19937 random;
};

TEST(Bounds, AreBelowEveryPrediction) {
  constexpr const char *devices[] = {"h100-sxm-80gb", "a100-sxm-80gb"};
  constexpr const char *hosts[] = {"megatron", "fsdp-eager", "cleave-cpu", "zero3-2021"};
  constexpr int64_t ranks[] = {4, 6, 8, 16, 30}, batches[] = {8, 12, 30, 64};
  std::mt19937 random(4);
  int checked = 0;
  double reached = 0;
  for (const char *model : kModels)
    for (const char *host : hosts)
      for (int round = 0; round < 3; ++round) {
        Setting setting(model, devices[random() % 2], host);
        setting.device.link.domain = int64_t(2) << round;
        const SearchProblem problem =
            setting.problem(ranks[random() % 5], batches[random() % 4], 256 << (random() % 3));
        BoundsChecker checker(problem, random());
        checker.run();
        checked += checker.checked;
        reached += checker.reached;
      }
  EXPECT_GT(checked, 10000);
  // A bound of nothing would be below too.
  EXPECT_GT(reached / checked, 0.95);
  RecordProperty("checked", checked);
  RecordProperty("reached", std::to_string(reached / checked));
}

} // namespace
} // namespace cleave

//===- PinTextTest.cpp - Printed pins find the layout again --------------------===//

#include "Setting.h"
#include "cleave/Pipelines/Phases.h"
#include "cleave/Planner/LaidOut.h"
#include "llvm/Support/raw_ostream.h"
#include <gtest/gtest.h>

#include <random>

namespace cleave {
namespace {

std::string textOf(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

/// The text of the plan of a request; empty where it has none.
std::string planText(mlir::ModuleOp model, const PlanRequest &request) {
  auto plan = planPhase(model, request);
  EXPECT_TRUE(plan.ok()) << rt::renderText(plan.status().error());
  return plan.ok() ? textOf(**plan) : "";
}

/// Random layouts of each model: the search finds nothing else under their pins, as they are
/// printed, and neither plans that are searched nor those of the policy differ by a byte.
TEST(PinText, FindsTheLayoutAgain) {
  const std::string dense = R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 6,
      "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 192,
      "vocab_size": 256, "max_position_embeddings": 256, "tie_word_embeddings": false})";
  const std::string experts = R"({"model_type": "mixtral", "hidden_size": 64,
      "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 64, "vocab_size": 256, "max_position_embeddings": 256,
      "num_local_experts": 4, "num_experts_per_tok": 2, "tie_word_embeddings": false,
      "sliding_window": null})";
  std::mt19937 random(7);
  int compared = 0, againstDefault = 0;
  for (const std::string &model : {dense, experts}) {
    Setting setting(model, "h100-sxm-80gb", "megatron");
    // Two nodes of four, so that state may be shared inside of one and exchanges cross nodes.
    SearchProblem problem = setting.problem(8, 16, 64, 0, 4);
    problem.request.ranksPerNode = 4;
    ASSERT_TRUE(differentiatePhase(*setting.module).ok());
    forEachChoice(problem, [&](const Choice &choice) {
      if (random() % 150 != 0)
        return;
      const std::string text = pinTextOf(problem, choice);
      auto pins = parsePins(text);
      ASSERT_TRUE(pins.ok()) << text << ": " << rt::renderText(pins.status().error());
      SearchProblem asked = problem;
      asked.request.pins = *pins;
      EXPECT_EQ(countChoices(asked), 1) << text;
      const SearchResult found = search(asked);
      ASSERT_EQ(found.best.size(), 1u) << text;

      PlanRequest wanted = problem.request, pasted = problem.request;
      wanted.pins = pinsOf(choice);
      pasted.pins = *pins;
      EXPECT_EQ(planText(*setting.module, pasted), planText(*setting.module, wanted)) << text;
      wanted.stageSizes = price(problem, choice).stageSizes();
      pasted.pins = pinsOf(found.best.front().choice);
      pasted.stageSizes = found.best.front().stageSizes();
      EXPECT_EQ(planText(*setting.module, pasted), planText(*setting.module, wanted)) << text;
      ++compared;

      // What is printed where nothing else is has to do so.
      Pins shortened = *parsePins(cleave::textOf(choice));
      pasted = problem.request;
      pasted.pins = shortened;
      wanted.stageSizes = {};
      if (auto plan = planPhase(*setting.module, pasted);
          plan.ok() && textOf(**plan) != planText(*setting.module, wanted))
        ++againstDefault;
    });
  }
  EXPECT_GT(compared, 100);
  EXPECT_GT(againstDefault, 5);
}

/// What was asked for besides is said too.
TEST(PinText, HasWhatChoicesDoNot) {
  const Setting setting(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
      "num_attention_heads": 4, "intermediate_size": 192, "vocab_size": 256,
      "max_position_embeddings": 256, "tie_word_embeddings": false})",
                        "h100-sxm-80gb", "megatron");
  SearchProblem problem = setting.problem(2, 4, 64);
  problem.request.pins = *parsePins("dp=2,bucket=50,precision.mlp=fp32");
  const SearchResult found = search(problem);
  ASSERT_FALSE(found.best.empty());
  const std::string text = pinTextOf(problem, found.best.front().choice);
  EXPECT_NE(text.find(",overlap=1,"), std::string::npos) << text;
  EXPECT_TRUE(llvm::StringRef(text).ends_with(",bucket=50,precision.mlp=fp32")) << text;
  // One rank has nothing to decide but these.
  EXPECT_EQ(pinTextOf(setting.problem(1, 4, 64), Choice()), "recompute=none,micro_batch=1");
}

} // namespace
} // namespace cleave

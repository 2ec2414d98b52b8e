//===- LaidOutTest.cpp - The search beside a target that lays plans out --------===//

#include "Setting.h"
#include "cleave/Planner/Relax.h"
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace cleave {
namespace {

/// Takes for each layout what the formula says, times something that depends on the layout.
class Factors : public MemoryLayouter {
public:
  static double of(const Choice &c) {
    return 0.93 + 0.02 * static_cast<double>(c.tp * c.microBatch % 7);
  }

  std::optional<LaidOutMemory> layOut(const PricedChoice &found) override {
    ++asked;
    const double bytes = found.prediction.memory.sum().value * of(found.choice);
    return LaidOutMemory{
        {{{"weights", static_cast<int64_t>(bytes / 2)},
          {"arena", static_cast<int64_t>(bytes) - static_cast<int64_t>(bytes / 2)}},
         {{"weights", 1}}}};
  }
  int asked = 0;
};

class LaidOut : public testing::Test {
protected:
  SearchProblem problem(double memory) const {
    SearchProblem out = setting.problem(4, 16, 256, memory);
    out.request.narrow = false;
    return out;
  }

  /// The fastest of all that fit when they are laid out, and nearly fit by the formula.
  std::optional<PricedChoice> bestThatFits(double memory) const {
    const SearchProblem all = problem(memory);
    std::optional<PricedChoice> best;
    forEachChoice(all, [&](const Choice &choice) {
      const PricedChoice priced = price(all, choice);
      if (priced.bytes() <= 1.15 * memory &&
          std::floor(priced.bytes() * Factors::of(choice)) <= memory &&
          (!best || std::pair(priced.seconds(), choice) < std::pair(best->seconds(), best->choice)))
        best = priced;
    });
    return best;
  }

  const Setting setting{
      R"({"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 5,
          "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 1536,
          "vocab_size": 8000, "max_position_embeddings": 2048, "tie_word_embeddings": false})",
      "cpu", "cleave-cpu"};
};

TEST_F(LaidOut, TheBestThatFitsIsTaken) {
  bool wasPutAside = false, wasTooLarge = false;
  for (double memory = 1.2e8; memory < 6e8; memory *= 1.1) {
    SearchProblem asked = problem(memory);
    Factors target;
    const SearchResult found = searchLaidOut(asked, target);
    const auto wanted = bestThatFits(memory);
    ASSERT_EQ(found.best.empty(), !wanted) << memory;
    if (!wanted)
      continue;
    EXPECT_EQ(textOf(found.best.front().choice), textOf(wanted->choice)) << memory;
    ASSERT_TRUE(found.best.front().laidOut);
    EXPECT_LE(found.best.front().bytes(), memory);
    EXPECT_EQ(found.best.front().bytes(), static_cast<double>(found.best.front().laidOut->bytes()));
    EXPECT_EQ(found.best.front().laidOut->fullest(), 0u);
    EXPECT_EQ(found.counts.putAside, target.asked - 1);
    wasPutAside |= found.counts.putAside > 0;
    wasTooLarge |= found.best.front().prediction.memory.sum().value > memory;
    for (const auto &[choice, bytes] : asked.putAside)
      EXPECT_GT(bytes, memory);
  }
  EXPECT_TRUE(wasPutAside);
  EXPECT_TRUE(wasTooLarge);
}

TEST_F(LaidOut, WithoutALimitNothingIsPutAside) {
  SearchProblem asked = problem(0);
  Factors target;
  SearchOptions options;
  options.top = 4;
  const SearchResult found = searchLaidOut(asked, target, options), plain = search(asked, options);
  ASSERT_EQ(found.best.size(), plain.best.size());
  EXPECT_EQ(target.asked, static_cast<int>(found.best.size()));
  for (size_t i = 0; i < plain.best.size(); ++i)
    EXPECT_EQ(textOf(found.best[i].choice), textOf(plain.best[i].choice));
}

/// What is behind the best is not laid out any more when the time is up, and the best always is.
TEST_F(LaidOut, TheTimeLimitIsOneForSearchesAndLayouts) {
  class Slow : public Factors {
    std::optional<LaidOutMemory> layOut(const PricedChoice &found) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return Factors::layOut(found);
    }
  } target;
  SearchProblem asked = problem(0);
  SearchOptions options;
  options.top = 4;
  const size_t all = searchLaidOut(asked, target, options).best.size();
  ASSERT_GT(all, 1u);
  target.asked = 0;
  options.timeLimit = 0.01;
  const SearchResult found = searchLaidOut(asked, target, options);
  EXPECT_EQ(target.asked, 1);
  EXPECT_TRUE(found.best.front().laidOut);
}

/// A target that is slow and holds more than the formula says: the time limit holds, and the answer
/// is by the formula.
TEST_F(LaidOut, WhenNothingThatFitsIsLaidOutInTimeTheFormulaAnswers) {
  class SlowAndLarge : public Factors {
    std::optional<LaidOutMemory> layOut(const PricedChoice &found) override {
      ++asked;
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
      return LaidOutMemory{
          {{{"arena", static_cast<int64_t>(2 * found.prediction.memory.sum().value)}}}};
    }
  } target;
  SearchProblem asked = problem(3e8);
  SearchOptions options;
  options.timeLimit = 0.1;
  const SearchResult found = searchLaidOut(asked, target, options);
  EXPECT_LE(target.asked, 3);
  EXPECT_GE(target.asked, 1);
  EXPECT_EQ(found.counts.putAside, target.asked);
  EXPECT_TRUE(found.isByFormulaAlone);
  EXPECT_FALSE(found.complete);
  ASSERT_FALSE(found.best.empty());
  EXPECT_FALSE(found.best.front().laidOut);
  EXPECT_LE(found.best.front().bytes(), 3e8);
  EXPECT_EQ(asked.putAside.count(found.best.front().choice), 0u);
  EXPECT_LE(found.bound, found.best.front().seconds());

  // Without a limit all are laid out, and none fits.
  SearchProblem patient = problem(3e8);
  patient.request.pins = pinsOf(found.best.front().choice);
  const SearchResult none = searchLaidOut(patient, target);
  EXPECT_TRUE(none.best.empty());
  EXPECT_FALSE(none.isByFormulaAlone);
}

/// What was laid out and fits stays the answer when the time is up behind it.
TEST_F(LaidOut, WhatFitsIsKeptWhenTheTimeIsUp) {
  class LaterOnesAreLarge : public Factors {
    std::optional<LaidOutMemory> layOut(const PricedChoice &found) override {
      const bool isFirst = ++asked == 1;
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      return LaidOutMemory{{{{"arena", isFirst ? 1 : static_cast<int64_t>(1e12)}}}};
    }
  } target;
  SearchProblem asked = problem(3e8);
  SearchOptions options;
  options.top = 4;
  options.timeLimit = 0.1;
  const SearchResult found = searchLaidOut(asked, target, options);
  EXPECT_EQ(target.asked, 2);
  EXPECT_FALSE(found.isByFormulaAlone);
  ASSERT_FALSE(found.best.empty());
  ASSERT_TRUE(found.best.front().laidOut);
  EXPECT_EQ(found.best.front().bytes(), 1);
}

/// What fits by the formula alone is explained by the memory that was laid out.
TEST_F(LaidOut, WhatIsPutAsideIsInConflictWithMemory) {
  SearchProblem asked = problem(0);
  asked.request.pins.zero = 0;
  asked.request.pins = pinsOf(search(asked).best.front().choice);
  const double formula = search(asked).best.front().bytes();
  asked.memory = formula;
  class Twice : public Factors {
    std::optional<LaidOutMemory> layOut(const PricedChoice &found) override {
      return LaidOutMemory{
          {{{"arena", static_cast<int64_t>(2 * found.prediction.memory.sum().value)}}}};
    }
  } target;
  EXPECT_TRUE(searchLaidOut(asked, target).best.empty());
  const Infeasible why = explainInfeasible(asked);
  EXPECT_TRUE(std::find(why.conflict.begin(), why.conflict.end(), "memory") != why.conflict.end());
  ASSERT_TRUE(why.smallest);
  EXPECT_NEAR(why.smallest->bytes, 2 * formula, 1);
}

} // namespace
} // namespace cleave

//===- SearchTest.cpp - The search beside one that leaves nothing out ----------===//

#include "Setting.h"
#include "cleave/Pipelines/Phases.h"
#include "cleave/Planner/Relax.h"
#include "cleave/Schedule/Schedule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

namespace cleave {
namespace {

std::string llama(int layers, int hidden, int heads, int keyHeads, int vocabulary) {
  return R"({"model_type": "llama", "hidden_size": )" + std::to_string(hidden) +
         R"(, "num_hidden_layers": )" + std::to_string(layers) + R"(, "num_attention_heads": )" +
         std::to_string(heads) + R"(, "num_key_value_heads": )" + std::to_string(keyHeads) +
         R"(, "intermediate_size": )" + std::to_string(3 * hidden) + R"(, "vocab_size": )" +
         std::to_string(vocabulary) +
         R"(, "max_position_embeddings": 8192, "tie_word_embeddings": false})";
}

std::string experts(int layers, int hidden, int count) {
  return R"({"model_type": "qwen3_moe", "hidden_size": )" + std::to_string(hidden) +
         R"(, "num_hidden_layers": )" + std::to_string(layers) +
         R"(, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32,
  "intermediate_size": 512, "vocab_size": 1000, "num_experts_per_tok": 2,
  "moe_intermediate_size": 256, "tie_word_embeddings": false, "num_experts": )" +
         std::to_string(count) + "}";
}

constexpr const char *kDevices[] = {"a100-sxm-80gb", "h100-sxm-80gb", "gb200-186gb"};
constexpr const char *kHosts[] = {"megatron", "megatron-2021", "fsdp-eager", "cleave-cpu"};

/// A bound of memory that some layouts are below, and some above.
double middleOf(const SearchProblem &problem, std::mt19937 &random) {
  std::vector<double> all;
  forEachChoice(problem, [&](const Choice &choice) {
    if (random() % 16 == 0)
      all.push_back(price(problem, choice).bytes());
  });
  return all.empty() ? 0 : all[random() % all.size()];
}

void pinSome(SearchProblem &problem, std::mt19937 &random) {
  Pins &pins = problem.request.pins;
  if (random() % 4 == 0)
    pins.zero = static_cast<int64_t>(random() % 4);
  if (random() % 4 == 0)
    pins.recompute = static_cast<Recompute>(random() % 3);
  if (random() % 6 == 0)
    pins.tp = 2;
  if (random() % 6 == 0)
    pins.pp = 2;
  if (random() % 2 == 0)
    pins.vocabulary = random() % 2 == 0;
  if (random() % 2 == 0)
    pins.sequence = random() % 2 == 0;
  if (random() % 3 == 0)
    problem.bans.push_back({"cp", std::nullopt});
  if (random() % 3 == 0)
    problem.bans.push_back({"schedule", "gpipe"});
  if (random() % 6 == 0)
    problem.bans.push_back({"zero", "1"});
}

/// Of some problems.
void orderSome(SearchProblem &problem, int round) {
  const auto &orders = cost::AxisOrder::all();
  const auto number = static_cast<size_t>(round);
  if (round % 7 == 3)
    problem.request.pins.order = orders[number % orders.size()];
  if (round % 7 == 5)
    problem.bans.push_back({"order", orders[number % 5].text()});
  if (round % 11 == 1)
    problem.orders = {orders[0], orders[1]};
}

TEST(Search, EqualsTheExhaustiveOneOnSmallProblems) {
  std::mt19937 random(20261201);
  const std::string models[] = {llama(2, 256, 8, 8, 1000), llama(5, 512, 8, 2, 32000),
                                llama(3, 384, 6, 3, 500),  llama(6, 2048, 16, 16, 50257),
                                experts(2, 256, 4),        experts(4, 512, 12)};
  const int64_t ranks[] = {1, 2, 3, 4, 6, 8, 12}, batches[] = {1, 4, 6, 8, 12, 24};
  int problems = 0, feasible = 0, infeasible = 0, others = 0;
  for (const std::string &model : models)
    for (int round = 0; round < 40; ++round) {
      Setting setting(model, kDevices[random() % 3], kHosts[random() % 4]);
      // Two levels, where ranks suffice.
      if (round % 2)
        setting.device.link.domain = int64_t(2) << (round / 2 % 2);
      SearchProblem problem =
          setting.problem(ranks[random() % 7], batches[random() % 6], int64_t(64) << (random() % 5),
                          0, int64_t(1) << (random() % 4));
      problem.request.narrow = random() % 3 != 0;
      pinSome(problem, random);
      orderSome(problem, round);
      if (round % 3)
        problem.memory = middleOf(problem, random) * (round % 9 == 1 ? 0.3 : 1);
      SearchOptions options;
      options.top = 1 + random() % 3;
      const SearchResult fast = search(problem, options), all = searchAll(problem, options);
      ++problems;
      ++(all.best.empty() ? infeasible : feasible);
      others += llvm::any_of(all.best, [](const PricedChoice &best) {
        return best.choice.order != cost::AxisOrder();
      });
      ASSERT_TRUE(fast.complete);
      ASSERT_EQ(fast.best.size(), all.best.size());
      for (size_t i = 0; i < all.best.size(); ++i) {
        EXPECT_EQ(textOf(fast.best[i].choice), textOf(all.best[i].choice));
        EXPECT_EQ(fast.best[i].seconds(), all.best[i].seconds());
        EXPECT_EQ(fast.best[i].bytes(), all.best[i].bytes());
      }
      EXPECT_EQ(countChoices(problem), all.counts.predicted);
    }
  EXPECT_GE(problems, 200);
  EXPECT_GE(feasible, 150);
  EXPECT_GE(infeasible, 3);
  // In some of these another order than the usual one is best.
  EXPECT_GE(others, 10);
}

/// The seconds of `choice` in all orders of its mesh.
std::set<double> inAllOrders(const SearchProblem &problem, Choice choice) {
  std::set<double> seconds;
  for (const cost::AxisOrder &order : cost::AxisOrder::all()) {
    choice.order = order.leastFor(choice.axisSizes());
    seconds.insert(price(problem, choice).seconds());
  }
  return seconds;
}

TEST(Search, OrdersThatAreLeftOutTakeWhatOthersTake) {
  std::mt19937 random(11);
  int64_t several = 0;
  for (const std::string &model : {llama(4, 1024, 8, 4, 32000), experts(4, 512, 12)}) {
    Setting setting(model, "h100-sxm-80gb", "megatron");
    setting.device.link.domain = 4;
    for (int64_t ranks : {12, 16}) {
      const SearchProblem problem = setting.problem(ranks, 48, 512, 0, 4);
      // What is listed of each layout but its order.
      std::map<Choice, std::set<double>> listed;
      forEachChoice(problem, [&](const Choice &choice) {
        EXPECT_EQ(choice.order, choice.order.leastFor(choice.axisSizes()));
        Choice usual = choice;
        usual.order = {};
        if (llvm::xxh3_64bits(textOf(usual)) % 700 == 0)
          listed[usual].insert(price(problem, choice).seconds());
      });
      for (const auto &[choice, seconds] : listed) {
        if (choice.zeroGroup)
          continue;
        EXPECT_EQ(seconds, inAllOrders(problem, choice)) << textOf(choice);
        several += seconds.size() > 1;
      }
    }
  }
  EXPECT_GT(several, 100);
}

TEST(Search, OneDomainHasOneOrder) {
  const Setting setting(experts(3, 256, 8), "h100-sxm-80gb", "megatron");
  forEachChoice(setting.problem(8, 8, 128), [](const Choice &choice) {
    EXPECT_EQ(choice.order, cost::AxisOrder()) << textOf(choice);
  });
}

TEST(Search, ExpertsStandTogetherWhereThatIsFaster) {
  // Experts of 8 data ranks beside 2 context ranks: with data inside each group has a node.
  const Setting setting(experts(8, 1024, 16), "h100-sxm-80gb", "megatron");
  SearchProblem problem = setting.problem(16, 32, 8192);
  Pins &pins = problem.request.pins;
  pins.dp = pins.experts = 8;
  pins.cp = 2;
  const SearchResult best = search(problem);
  pins.order = cost::AxisOrder();
  const SearchResult usual = search(problem);
  ASSERT_FALSE(best.best.empty() || usual.best.empty());
  EXPECT_EQ(best.best.front().choice.order.text(), "tp-dp-cp-pp");
  EXPECT_LT(best.best.front().prediction.layers.experts,
            0.5 * usual.best.front().prediction.layers.experts);
  EXPECT_LT(best.best.front().seconds(), usual.best.front().seconds());
  // Software that lacks it is left with the usual one.
  pins.order.reset();
  problem.orders = {cost::AxisOrder()};
  EXPECT_EQ(search(problem).best.front().choice, usual.best.front().choice);
  problem.orders.clear();
  problem.bans = *parseBans("order");
  EXPECT_EQ(search(problem).best.front().choice, usual.best.front().choice);
  problem.bans = *parseBans("order=tp-dp-cp-pp");
  EXPECT_NE(search(problem).best.front().choice, best.best.front().choice);
}

TEST(Standing, CountsOrDrawsWhatIsFaster) {
  const Setting setting(llama(4, 1024, 8, 4, 32000), "h100-sxm-80gb", "megatron");
  SearchProblem problem = setting.problem(8, 24, 512);
  problem.bans = *parseBans(setting.host.lacks);
  std::mt19937 random(5);
  problem.memory = middleOf(problem, random);
  std::vector<double> times;
  forEachChoice(problem, [&](const Choice &choice) {
    if (const PricedChoice priced = price(problem, choice); priced.bytes() <= problem.memory)
      times.push_back(priced.seconds());
  });
  std::sort(times.begin(), times.end());
  const double third = times[times.size() / 3];
  const Standing all = standingOf(problem, third, int64_t(1) << 30, 0);
  EXPECT_EQ(all.feasible, static_cast<int64_t>(times.size()));
  EXPECT_EQ(all.faster, std::lower_bound(times.begin(), times.end(), third) - times.begin());
  // Drawn ones come near to it.
  const Standing some = standingOf(problem, third, all.space - 1, 1000);
  EXPECT_EQ(some.feasible, 1000);
  EXPECT_NEAR(static_cast<double>(some.faster) / 1000, 1. / 3, 0.06);
  EXPECT_EQ(standingOf(problem, third, all.space - 1, 1000).faster, some.faster);
  EXPECT_EQ(standingOf(problem, times.front(), all.space, 0).faster, 0);
}

TEST(Search, FrontIsThatOfAllLayouts) {
  std::mt19937 random(7);
  for (int round = 0; round < 8; ++round) {
    const Setting setting(round % 3 ? llama(4, 1024, 8, 4, 32000) : experts(3, 256, 8),
                          kDevices[round % 3], "megatron");
    SearchProblem problem = setting.problem(round % 2 ? 4 : 3, 6, 512);
    if (round % 4 == 3)
      problem.memory = middleOf(problem, random);
    SearchOptions options;
    options.pareto = true;
    const SearchResult fast = search(problem, options), all = searchAll(problem, options);
    ASSERT_EQ(fast.pareto.size(), all.pareto.size());
    for (size_t i = 0; i < all.pareto.size(); ++i) {
      EXPECT_EQ(fast.pareto[i].seconds(), all.pareto[i].seconds());
      EXPECT_EQ(fast.pareto[i].bytes(), all.pareto[i].bytes());
    }
  }
}

/// All values that a field may have at all, whether or not they go together.
void forEachTuple(int64_t ranks, int64_t batch, int64_t experts,
                  const std::function<void(const Choice &)> &visit) {
  Choice c;
  for (c.dp = 1; c.dp <= ranks; ++c.dp)
    for (c.tp = 1; c.tp <= ranks; ++c.tp)
      for (c.cp = 1; c.cp <= ranks; ++c.cp)
        for (c.pp = 1; c.pp <= ranks; ++c.pp)
          for (c.ep = 1; c.ep <= experts; ++c.ep)
            for (c.microBatch = 1; c.microBatch <= batch; ++c.microBatch)
              for (const Schedule &schedule : allSchedules())
                for (c.vp = 1; c.vp <= 4; ++c.vp) {
                  c.schedule = std::string_view(schedule.name.data(), schedule.name.size());
                  visit(c);
                }
}

TEST(Search, SpaceIsWhatPlansAreMadeOf) {
  for (const std::string &model : {llama(2, 64, 4, 2, 256), experts(2, 64, 6)}) {
    Setting setting(model, "h100-sxm-80gb", "megatron");
    const SearchProblem problem = setting.problem(6, 6, 32);
    ASSERT_TRUE(differentiatePhase(*setting.module).ok());
    std::set<std::string> listed;
    forEachChoice(problem, [&](const Choice &choice) {
      EXPECT_FALSE(brokenRule(problem, choice));
      Choice plain = choice;
      plain.zero = plain.zeroGroup = 0;
      plain.sequence = plain.overlap = false;
      plain.recompute = Recompute::None;
      plain.vocabulary = true;
      listed.insert(textOf(plain));
    });
    std::mt19937 random(1);
    forEachTuple(6, 6, setting.limits.experts ? 6 : 1, [&](const Choice &choice) {
      EXPECT_EQ(!brokenRule(problem, choice), listed.count(textOf(choice)) == 1) << textOf(choice);
      // Making and checking plans takes longer.
      const bool isNear = choice.dp * choice.tp * choice.cp * choice.pp == 6;
      if (random() % (isNear ? 12 : 3000) != 0)
        return;
      PlanRequest request = problem.request;
      request.pins = pinsOf(choice);
      request.pins.vp = choice.vp;
      request.pins.schedule = std::string(choice.schedule);
      const bool isMade = planPhase(*setting.module, request).ok();
      // Plans may leave ranks without tokens; the search does not look there. Without a pipeline
      // the name of its schedule does not matter.
      if (!brokenRule(problem, choice))
        EXPECT_TRUE(isMade) << textOf(choice);
      else if (isMade)
        EXPECT_TRUE(choice.tp > 4 || choice.pp == 1 || choice.schedule == "1f1b")
            << textOf(choice) << ": " << *brokenRule(problem, choice);
    });
  }
}

TEST(Search, PlansSayTheirChoice) {
  for (const std::string &model : {llama(4, 64, 4, 2, 256), experts(3, 64, 8)}) {
    Setting setting(model, "h100-sxm-80gb", "megatron");
    setting.device.link.domain = 4;
    const SearchProblem problem = setting.problem(8, 16, 64, 0, 4);
    ASSERT_TRUE(differentiatePhase(*setting.module).ok());
    std::mt19937 random(3);
    int made = 0;
    forEachChoice(problem, [&](const Choice &choice) {
      if (random() % 60 != 0)
        return;
      const PricedChoice priced = price(problem, choice);
      PlanRequest request = problem.request;
      request.pins = pinsOf(choice);
      request.stageSizes = priced.stageSizes();
      auto plan = planPhase(*setting.module, request);
      ASSERT_TRUE(plan.ok()) << textOf(choice) << ": " << rt::renderText(plan.status().error());
      EXPECT_EQ(textOf(choiceOf(solutionOf(**plan))), textOf(choice));
      ++made;
    });
    EXPECT_GT(made, 80);
  }
}

TEST(Search, MoreMemoryIsNeverSlower) {
  const Setting setting(llama(8, 4096, 32, 8, 32000), "a100-sxm-80gb", "megatron");
  double last = std::numeric_limits<double>::max();
  int found = 0;
  for (double memory = 4e9; memory < 200e9; memory *= 1.3) {
    const SearchResult result = search(setting.problem(8, 64, 4096, memory));
    if (result.best.empty()) {
      EXPECT_EQ(found, 0);
      continue;
    }
    ++found;
    EXPECT_LE(result.best.front().bytes(), memory);
    EXPECT_LE(result.best.front().seconds(), last);
    last = result.best.front().seconds();
  }
  EXPECT_GT(found, 5);
}

TEST(Search, SameAnswerEachTime) {
  const Setting setting(experts(4, 1024, 16), "h100-sxm-80gb", "megatron");
  const SearchProblem problem = setting.problem(16, 64, 1024, 20e9);
  SearchOptions options;
  options.top = 5;
  const SearchResult a = search(problem, options), b = search(problem, options);
  ASSERT_EQ(a.best.size(), b.best.size());
  for (size_t i = 0; i < a.best.size(); ++i) {
    EXPECT_EQ(a.best[i].choice, b.best[i].choice);
    EXPECT_EQ(a.best[i].seconds(), b.best[i].seconds());
  }
  EXPECT_EQ(a.counts.predicted, b.counts.predicted);
}

TEST(Search, DepthDoesNotAddWork) {
  // 16 times as many layouts.
  const Setting few(llama(4, 16384, 128, 8, 128256), "h100-sxm-80gb", "megatron");
  const Setting many(llama(126, 16384, 128, 8, 128256), "h100-sxm-80gb", "megatron");
  const SearchProblem shallow = few.problem(16384, 2048, 8192, 75e9);
  const SearchProblem deep = many.problem(16384, 2048, 8192, 75e9);
  EXPECT_GT(countChoices(deep), 10 * countChoices(shallow));
  const SearchResult a = search(shallow), b = search(deep);
  ASSERT_TRUE(a.complete && b.complete);
  EXPECT_LE(static_cast<double>(b.counts.bounded), 1.2 * static_cast<double>(a.counts.bounded));
  EXPECT_LE(b.counts.predicted, 50);
}

TEST(Search, StoppedEarlyItHasABoundAndABest) {
  const Setting setting(llama(32, 4096, 32, 32, 32000), "a100-sxm-80gb", "megatron");
  const SearchProblem problem = setting.problem(64, 512, 2048, 70e9);
  SearchOptions options;
  options.top = 5;
  const SearchResult whole = search(problem, options);
  options.timeLimit = 1e-9;
  const SearchResult part = search(problem, options);
  ASSERT_FALSE(part.best.empty());
  EXPECT_FALSE(part.complete);
  EXPECT_LE(part.bound, whole.best.front().seconds());
  EXPECT_GE(part.best.front().seconds(), whole.best.front().seconds());
  EXPECT_GE(part.gap(), 0);
}

TEST(Search, UnevenLayersFillStagesExactly) {
  const Setting setting(llama(30, 64, 4, 2, 256), "h100-sxm-80gb", "megatron");
  SearchProblem problem = setting.problem(4, 16, 32);
  problem.request.pins.pp = 4;
  problem.request.pins.vp = 1;
  problem.request.pins.schedule = "1f1b";
  const SearchResult result = search(problem);
  ASSERT_FALSE(result.best.empty());
  std::vector<int64_t> sizes = result.best.front().stageSizes();
  ASSERT_EQ(sizes.size(), 4u);
  // Embedding and head are layers too, and the head is small.
  --sizes.front();
  --sizes.back();
  EXPECT_EQ(sizes[0] + sizes[1] + sizes[2] + sizes[3], 30);
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  EXPECT_LE(*most - *least, 1);
}

TEST(Search, SlowLinksArePricedForTensorRanks) {
  // Ten billion parameters on 8 devices that 10 GB/s join: a pipeline or shared parameters are
  // faster than tensor ranks, which exchange in every layer.
  Setting setting(llama(48, 4096, 32, 32, 32000), "h100-sxm-80gb", "megatron");
  setting.device.link.bandwidth = cost::BytesPerSecond(10e9);
  SearchProblem problem = setting.problem(8, 64, 4096, 200e9);
  const SearchResult best = search(problem);
  problem.request.pins.tp = 8;
  const SearchResult tensor = search(problem);
  ASSERT_FALSE(best.best.empty());
  ASSERT_FALSE(tensor.best.empty());
  EXPECT_EQ(best.best.front().choice.tp, 1);
  EXPECT_GT(tensor.best.front().seconds(), 1.5 * best.best.front().seconds());
}

TEST(Search, TensorRanksAcrossNodesPayForTheNetwork) {
  Setting setting(llama(8, 8192, 64, 64, 32000), "a100-sxm-80gb", "megatron");
  setting.device.network.bandwidth = cost::BytesPerSecond(2.5e9);
  SearchProblem problem = setting.problem(16, 16, 2048);
  problem.request.pins.pp = problem.request.pins.cp = 1;
  problem.request.pins.order = cost::AxisOrder();
  problem.request.pins.tp = 8;
  const double inside = search(problem).best.front().prediction.layers.tensor.value;
  problem.request.pins.tp = 16;
  const double across = search(problem).best.front().prediction.layers.tensor.value;
  // Twice the sequences besides.
  EXPECT_GT(across, 2 * 3 * inside);
}

TEST(Search, ManySmallMicroBatchesDoNotHideLaunches) {
  // 90 % of a stage's time is launches: half the bubble does not help.
  Setting setting(llama(8, 256, 8, 8, 1000), "h100-sxm-80gb", "megatron");
  setting.host.launch = cost::Seconds(2e-3);
  SearchProblem problem = setting.problem(8, 16, 128);
  Choice choice;
  choice.pp = 8;
  choice.microBatch = 2;
  const double eight = price(problem, choice).seconds();
  choice.microBatch = 1;
  EXPECT_GT(price(problem, choice).seconds(), eight);
}

TEST(Relax, NamesTheSmallestConflict) {
  const Setting setting(llama(8, 4096, 32, 32, 32000), "a100-sxm-80gb", "megatron");
  // What fits with all devices, and does not on each alone.
  SearchProblem problem = setting.problem(8, 8, 2048, 8e9);
  ASSERT_FALSE(search(problem).best.empty());
  problem.request.pins.tp = 1;
  problem.request.pins.zero = 0;
  problem.request.pins.pp = 1;
  problem.request.pins.recompute = Recompute::Full;
  ASSERT_TRUE(search(problem).best.empty());
  const Infeasible why = explainInfeasible(problem);
  ASSERT_TRUE(why.smallest);
  EXPECT_GT(why.smallest->bytes, 8e9);
  const std::set<std::string> conflict(why.conflict.begin(), why.conflict.end());
  EXPECT_TRUE(conflict.count("memory"));
  EXPECT_TRUE(conflict.count("tp=1"));
  EXPECT_TRUE(conflict.count("zero=0"));
  EXPECT_FALSE(conflict.count("recompute=full"));
  ASSERT_FALSE(why.relaxations.empty());
  for (const Relaxation &relaxation : why.relaxations)
    EXPECT_LE(relaxation.best.bytes(), 8e9);
}

TEST(Relax, SmallestIsThatOfAllLayouts) {
  const Setting setting(experts(3, 256, 8), "a100-sxm-80gb", "megatron");
  const SearchProblem problem = setting.problem(4, 8, 256);
  double least = std::numeric_limits<double>::max();
  forEachChoice(problem, [&](const Choice &choice) {
    least = std::min(least, price(problem, choice).bytes());
  });
  const auto smallest = smallestChoice(problem);
  ASSERT_TRUE(smallest);
  EXPECT_NEAR(smallest->bytes, least, 1e-6 * least);
}

TEST(Choice, BansReadAndRefuse) {
  auto bans = parseBans("tp=8, zero=3,cp");
  ASSERT_TRUE(bans.ok());
  Choice choice;
  EXPECT_FALSE(isBanned(choice, *bans));
  choice.tp = 8;
  EXPECT_TRUE(isBanned(choice, *bans));
  choice.tp = 4;
  EXPECT_FALSE(isBanned(choice, *bans));
  choice.cp = 2;
  EXPECT_TRUE(isBanned(choice, *bans));
  EXPECT_EQ(parseBans("order=tp-cp").status().error().kind, "plan.bad_pin");
  EXPECT_EQ(parseBans("tpp=1").status().error().kind, "plan.unknown_pin");
  EXPECT_EQ(parseBans("zero=9").status().error().kind, "plan.bad_pin");
}

} // namespace
} // namespace cleave

//===- RunTest.cpp - Numbers of published runs ---------------------------------===//

#include "cleave/Planner/Run.h"
#include "cleave/CostModel/Kernels.h"
#include "cleave/Frontend/Model.h"
#include "cleave/Planner/Machines.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

cost::ModelWork workOf(const std::string &config, int64_t *parameters = nullptr) {
  auto model = frontend::readModelText(config, "config.json");
  EXPECT_TRUE(model.ok());
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = frontend::importModel(*model, context);
  if (parameters)
    *parameters = (*model).parameterCount();
  return *cost::workOf(*module);
}

constexpr const char *kLlama405B = R"({"model_type": "llama", "hidden_size": 16384,
  "num_hidden_layers": 126, "num_attention_heads": 128, "num_key_value_heads": 8,
  "intermediate_size": 53248, "vocab_size": 128256, "max_position_embeddings": 131072,
  "tie_word_embeddings": false})";

constexpr double kYear = 365.25 * 86400;

TEST(Run, OperationsOfPublishedRuns) {
  EXPECT_NEAR(sixND(405e9, 15.6e12), 3.8e25, 0.01e25);
  EXPECT_NEAR(sixND(7e9, 2e12), 8.4e22, 1e20);
  EXPECT_NEAR(sixND(175e9, 2e12), 2.1e24, 1e22);
  // GPT-3 on one H100 at 40 %, 405B on one and on 16,384.
  const double rate = 0.4 * 989e12;
  EXPECT_NEAR(3.14e23 / rate / kYear, 25, 0.5);
  EXPECT_NEAR(sixND(405e9, 15.6e12) / rate / kYear, 3000, 100);
  EXPECT_NEAR(sixND(405e9, 15.6e12) / rate / 86400 / 16384, 70, 5);
}

TEST(Run, DaysOfAnA100Run) {
  // 175B, 2T tokens, 1,024 devices whose 300 TFLOP/s are used by 50 and by 30 %.
  Cluster cluster;
  cluster.nodes = 128;
  cluster.devicesPerNode = 8;
  const double tokensOfStep = 1536 * 2048.;
  for (auto [share, days] : {std::pair(0.5, 158.), {0.3, 264.}}) {
    const double step = sixND(175e9, tokensOfStep) / (1024 * 300e12 * share);
    EXPECT_NEAR(runOf(step, tokensOfStep, 2e12, cluster, std::nullopt, 0).days, days, 1);
  }
}

TEST(Run, StateByTheFormulaAndByTheCount) {
  int64_t exact = 0;
  workOf(kLlama405B, &exact);
  auto devices = [](double bytes) { return std::ceil(bytes / 80e9); };
  EXPECT_NEAR(16 * 405e9, 6.5e12, 0.05e12);
  EXPECT_EQ(devices(16 * 405e9), 81);
  EXPECT_EQ(devices(16. * static_cast<double>(exact)), 82);
  EXPECT_EQ(devices(18. * static_cast<double>(exact)), 92);
  EXPECT_EQ(devices(2 * 405e9), 11);
}

TEST(Run, ExactOperationsAreNearSixND) {
  int64_t parameters = 0;
  const cost::ModelWork work = workOf(kLlama405B, &parameters);
  const StepOperations ops = operationsOf(work, 8192, 16, Recompute::None);
  const double tokens = 16 * 8192.;
  // The embedding's look-up is free; attention adds 6 · 126 · 16384 · 8192 a token.
  const double embedding = 128256. * 16384;
  const double products = sixND(static_cast<double>(parameters) - embedding, tokens);
  const double scores = 6. * 126 * 16384 * 8192 * tokens;
  EXPECT_NEAR(ops.model / (products + scores), 1, 1e-3);
  EXPECT_EQ(ops.executed, ops.model);
  // All but the head once more.
  const StepOperations again = operationsOf(work, 8192, 16, Recompute::Full);
  const double head = 6 * embedding * tokens;
  EXPECT_NEAR(again.executed / (ops.model + (ops.model - head) / 3), 1, 1e-12);
}

TEST(Run, EnergyAndMoney) {
  Cluster cluster;
  cluster.nodes = 20;
  cluster.devicesPerNode = 8;
  cluster.powerOverhead = 1;
  // 160 devices for 15 days at 400 W.
  RunFacts run = runOf(15 * 86400 / 1000., 1, 1000, cluster, 400, 0);
  EXPECT_NEAR(run.deviceHours, 57600, 1e-6);
  EXPECT_NEAR(*run.energy, 23040, 1e-6);
  EXPECT_FALSE(run.money);
  EXPECT_FALSE(runOf(1, 1, 1000, cluster, std::nullopt, 0).energy);
  cluster.pricePerDeviceHour = 2;
  run = runOf(2.788e6 * 3600 / 160 / 1000, 1, 1000, cluster, 400, 0);
  EXPECT_NEAR(*run.money, 5.576e6, 1e3);
  // 1,720,320 hours at 400 W.
  run = runOf(1720320. * 3600 / 160 / 1000, 1, 1000, cluster, 400, 0);
  EXPECT_NEAR(*run.energy, 688128, 1e-3);
  EXPECT_NEAR(*run.energy * 0.4235 / 1000, 291.4, 0.1);
  // 100,000 devices of 700 W.
  cluster.nodes = 12500;
  EXPECT_NEAR(*runOf(1, 1, 1, cluster, 700, 0).power, 70e6, 1);
}

TEST(Run, InterruptionsAndCheckpoints) {
  // 419 in 54 days on 16,384 devices: one in about 3 hours.
  Cluster cluster;
  cluster.nodes = 2048;
  cluster.devicesPerNode = 8;
  cluster.mtbfHoursPerDevice = 54 * 24 * 16384 / 419.;
  RunFacts run = runOf(54 * 86400 / 1e4, 1, 1e4, cluster, std::nullopt, 0);
  EXPECT_NEAR(*run.interruptions, 419, 1);
  EXPECT_NEAR(*run.between / 3600, 3.09, 0.01);
  EXPECT_FALSE(run.interval);
  cluster.storageBandwidth = 2e9;
  run = runOf(54 * 86400 / 1e4, 1, 1e4, cluster, std::nullopt, 12 * 405e9);
  ASSERT_TRUE(run.interval);
  const double checkpoint = 12 * 405e9 / (2e9 * 2048);
  EXPECT_NEAR(*run.checkpoint, checkpoint, 1e-9);
  // Young's sqrt(2 δ M) is near, and no other interval keeps more of the time.
  EXPECT_NEAR(*run.interval, std::sqrt(2 * checkpoint * *run.between), 0.05 * *run.interval);
  for (double other : {0.5, 0.8, 1.25, 2.})
    EXPECT_GE(*run.goodput, goodputOf(checkpoint, other * *run.interval, *run.between, 0));
}

TEST(Run, ACoreIsAsFastAsTwoHalves) {
  Cluster cluster;
  cluster.local = true;
  cluster.device = "cpu";
  auto one = deviceOf(cluster, CLEAVE_SHARE);
  ASSERT_TRUE(one.ok()) << rt::renderText(one.status().error());
  cluster.coresOfRank = 2;
  auto two = deviceOf(cluster, CLEAVE_SHARE);
  EXPECT_EQ((*two).rateOf(32).value, 2 * (*one).rateOf(32).value);
}

TEST(Run, LinksOfTheClusterTakeThePlaceOfTheDevices) {
  Cluster cluster;
  cluster.device = "h100-sxm-80gb";
  cluster.nodes = 4;
  cluster.devicesPerNode = 4;
  cluster.levels = {{"nvlink", 4, 450e9, 2e-6, true}, {"network", 16, 25e9, 5e-6, false}};
  auto plain = deviceOf(cluster, CLEAVE_SHARE);
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ((*plain).link.domain, 4);
  EXPECT_EQ((*plain).network.bandwidth.value, 25e9);
  cluster.levels[0].bandwidth = 900e9;
  cluster.levels[1].oversubscription = 2;
  auto other = deviceOf(cluster, CLEAVE_SHARE);
  EXPECT_NEAR((*other).link.bandwidth / (*plain).link.bandwidth, 2, 1e-12);
  EXPECT_EQ((*other).network.bandwidth.value, 12.5e9);
}

/// What a file leaves out of the links is known, and links end where the node does.
TEST(Run, ANetworkThatNobodyStatedIsAssumed) {
  Cluster cluster;
  cluster.device = "h100-sxm-80gb";
  cluster.nodes = 2;
  cluster.devicesPerNode = 4;
  EXPECT_TRUE(assumesNetwork(cluster));
  auto bare = deviceOf(cluster, CLEAVE_SHARE);
  ASSERT_TRUE(bare.ok());
  EXPECT_EQ((*bare).link.domain, 4);
  cluster.levels = {{"nvlink", 4, 450e9, 2e-6, true}};
  EXPECT_TRUE(assumesNetwork(cluster));
  cluster.levels.push_back({"network", 8, std::nullopt, 5e-6, false});
  EXPECT_TRUE(assumesNetwork(cluster));
  cluster.levels[1].bandwidth = 25e9;
  EXPECT_FALSE(assumesNetwork(cluster));
  // One domain over all, and a single node.
  cluster.levels = {{"nvlink", 8, 450e9, 2e-6, true}};
  EXPECT_FALSE(assumesNetwork(cluster));
  cluster.levels.clear();
  cluster.nodes = 1;
  EXPECT_FALSE(assumesNetwork(cluster));
}

/// A device with more memory never leaves a rank less, and what a rank needs suffices.
TEST(Run, MoreMemoryLeavesNoLess) {
  double last = 0;
  for (double bytes = 1e6; bytes < 200e9; bytes *= 1.003) {
    EXPECT_GE(usableMemory(bytes), last) << bytes;
    last = usableMemory(bytes);
    EXPECT_LE(last, bytes);
    EXPECT_GE(usableMemory(memoryWith(Cluster(), last)), last * (1 - 1e-12)) << bytes;
  }
}

} // namespace
} // namespace cleave

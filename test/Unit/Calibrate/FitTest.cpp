//===- FitTest.cpp - Descriptions of made-up processors -------------------===//

#include "cleave/Calibrate/Calibrate.h"
#include "cleave/CostModel/Collectives.h"
#include "cleave/CostModel/Kernels.h"
#include "runtime/Base/Files.h"
#include <gtest/gtest.h>

namespace cleave::calibrate {
namespace {

using cost::Bytes, cost::OperationsPerSecond, cost::Seconds;

/// Products at 1e10·m operations/s, gradients of weights at half of that, picked ones at a quarter.
Timings madeUp() {
  Timings t;
  t.ranks = 2;
  for (ProductRole role :
       {ProductRole::PickedWeights, ProductRole::Picked, ProductRole::Weights, ProductRole::Plain})
    // Not in the order of sizes.
    for (double m : {64., 16.})
      for (double k : {16., 256.})
        for (double n : {16., 64.}) {
          const double count = role >= ProductRole::Picked ? 4 : 1;
          const double rate = 1e10 * m / std::pow(2, static_cast<double>(role));
          const Seconds time(2 * m * n * k * count / rate);
          t.products.push_back({32, role, m, n, k, count, time});
          // Four times as fast from near by.
          t.nearProducts.push_back({32, role, m, n, k, count, time / 4});
        }
  t.nearAround = Bytes(1e6);
  t.productsAround = Bytes(1e8);
  for (double width : {16., 64.})
    for (double keys : {64., 256.})
      for (bool isSpread : {false, true})
        for (bool backward : {false, true}) {
          const double work = 2 * 1000 * (keys / 2) * 2 * width * (backward ? 2.5 : 1);
          t.attention.push_back({width, keys, 1000, backward, isSpread,
                                 Seconds(work / (1e9 * width * (isSpread ? 0.5 : 1)))});
        }
  for (double bytes : {1e4, 1e6, 1e8}) {
    t.streams.push_back({Bytes(bytes), Seconds(bytes / (1e14 / bytes))});
    t.updates.push_back({Bytes(bytes), Seconds(bytes / 2e10)});
  }
  for (double bytes : {256., 1e6}) {
    for (auto kind : {cost::Exchange::AllReduce, cost::Exchange::AllGather,
                      cost::Exchange::ReduceScatter, cost::Exchange::AllToAll})
      t.exchanges.push_back({kind, Bytes(bytes), Seconds(1e-6 + bytes / 1e10)});
    t.sends.push_back({Bytes(bytes), Seconds(2e-6 + bytes / 5e9)});
  }
  t.functions = {{"math.exp", Seconds(2.1e-10), Seconds(1e-11)}};
  t.multiplyAdds = OperationsPerSecond(2e12);
  t.vectors = OperationsPerSecond(1e11);
  t.scalars = OperationsPerSecond(1e10);
  t.lanes = 16;
  t.command = Seconds(1e-7);
  return t;
}

cost::Device base() { return *cost::readDevice(CLEAVE_SHARE, "cpu"); }

void expectMadeUp(const cost::Device &device) {
  auto rateOf = [&](double m, double n, double k, bool isWeights) {
    return 2 * m * n * k /
           cost::productTime(device, {m, n, k, 32, 4, false, false, isWeights}, 1).value;
  };
  EXPECT_NEAR(rateOf(16, 16, 16, false), 16e10, 1e8);
  EXPECT_NEAR(rateOf(64, 64, 256, false), 64e10, 1e9);
  EXPECT_NEAR(rateOf(64, 16, 256, true), 32e10, 1e9);
  // Half way in logarithms; and as at the end beyond it.
  EXPECT_NEAR(rateOf(32, 20, 100, false), 32e10, 1e9);
  EXPECT_NEAR(rateOf(1024, 4096, 9000, false), 64e10, 1e9);
  EXPECT_NEAR(rateOf(4, 16, 16, false), 16e10, 1e8);
  // Near, half way in logarithms, far.
  for (auto [around, times] : {std::pair(1e4, 4.), {1e6, 4.}, {1e7, 2.}, {1e8, 1.}, {1e10, 1.}}) {
    const cost::ProductSize size{64, 64, 256, 32, 4, false, false, false, Bytes(around)};
    EXPECT_NEAR(2. * 64 * 64 * 256 / cost::productTime(device, size, 1).value, times * 64e10, 1e9);
    cost::ProductSize picked{128, 16, 16, 32};
    picked.around = Bytes(around);
    EXPECT_NEAR(2. * 128 * 16 * 16 / cost::groupedProductTime(device, picked, 4, 1).value,
                times * 8e10, 1e9);
  }
  const double picked = 4 * 2. * 32 * 16 * 16;
  EXPECT_NEAR(picked / cost::groupedProductTime(device, {128, 16, 16, 32}, 4, 1).value, 8e10, 1e9);

  cost::ScoresSize scores;
  scores.queries = 1000;
  scores.keys = 128;
  scores.keyWidth = scores.valueWidth = 32;
  const double work = 2. * 1000 * 64 * 64;
  EXPECT_NEAR(work / cost::scoresTime(device, "flash2", scores, false, 1).value, 32e9, 1e8);
  scores.isSpread = true;
  EXPECT_NEAR(2.5 * work / cost::scoresTime(device, "flash2", scores, true, 1).value, 16e9, 1e8);

  // 1e8 bytes/s at 1e6, 1e9 at 1e5: what is large does not stay.
  EXPECT_NEAR(cost::streamTime(device, Bytes(1e5)).value, 1e-4, 1e-6);
  EXPECT_NEAR(cost::streamTime(device, Bytes(1e5), Bytes(1e6)).value, 1e-3, 1e-5);
  EXPECT_NEAR(cost::updateTime(device, Bytes(2e10)).value, 1, 1e-3);
  EXPECT_NEAR(cost::functionTime(device, {{"math.exp", 1}, {"arith.addf", 2}}, 1e9, 64).value,
              (1 + 20 + 2) * 1e-2, 1e-3);
  EXPECT_NEAR(cost::functionTime(device, {{"arith.addf", 1}}, 1e9, 8).value, 0.1, 1e-3);

  const auto exchange = [&](double bytes) {
    return cost::exchangeTime(device, cost::Exchange::AllGather, {2, 2}, Bytes(bytes)).value;
  };
  EXPECT_NEAR(exchange(1e6), 101e-6, 1e-6);
  EXPECT_NEAR(exchange(4), exchange(256), 1e-12);
  EXPECT_NEAR(exchange(1e8), 101e-4, 1e-4);
  EXPECT_NEAR(cost::sendTime(device, true, Bytes(1e6)).value, 202e-6, 1e-6);
  EXPECT_NEAR(device.command.value, 1e-7, 1e-12);
}

TEST(Fit, KeepsWhatWasMeasured) {
  const cost::Device device = fit(madeUp(), base());
  expectMadeUp(device);
  EXPECT_NEAR(device.peak.at(32).value, 2e12, 1);
  // What was not measured stays.
  EXPECT_EQ(device.product.rate.at(16).value, base().product.rate.at(16).value);
  EXPECT_EQ(device.network.bandwidth.value, base().network.bandwidth.value);
}

TEST(Fit, MoreRowsAreNotSlower) {
  Timings timings = madeUp();
  timings.products.clear();
  for (ProductRole role :
       {ProductRole::Plain, ProductRole::Weights, ProductRole::Picked, ProductRole::PickedWeights})
    for (auto [rows, rate] : {std::pair(16., 1e10), {32., 4e10}, {64., 1e10}, {128., 8e10}}) {
      const bool isWeights = role == ProductRole::Weights || role == ProductRole::PickedWeights;
      const double m = isWeights ? 16 : rows, k = isWeights ? rows : 16;
      timings.products.push_back({32, role, m, 16, k, 1, Seconds(2 * m * 16 * k / rate)});
    }
  const cost::ProductTables tables = fit(timings, base()).product.tables.at(32);
  // 4e10 and 1e10 behind it are 2e10 both.
  const double wanted[] = {1e10, 2e10, 2e10, 8e10};
  for (const cost::ShapeTable *table :
       {&tables.plain, &tables.weights, &tables.picked, &tables.pickedWeights})
    for (int i = 0; i < 4; ++i)
      EXPECT_NEAR(table->rates[i], wanted[i], 1e4);
}

TEST(Fit, OneCoreKeepsTheLinksOfTheBase) {
  Timings timings = madeUp();
  timings.ranks = 1;
  timings.exchanges.clear();
  timings.sends.clear();
  const cost::Device device = fit(timings, base());
  EXPECT_EQ(device.link.measuredRanks, 0);
  EXPECT_EQ(device.link.bandwidth.value, base().link.bandwidth.value);
  EXPECT_NE(describe(device, timings, {}, "").find("there is one core"), std::string::npos);
}

/// A file of the test that runs: others run beside it.
std::string written(const std::string &text) {
  const char *test = testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path = testing::TempDir() + "/calibrated-" + test + ".json";
  EXPECT_TRUE(rt::writeFileAtomically(path, text).ok());
  return path;
}

TEST(Describe, IsReadBackAsItIs) {
  const cost::Device device = fit(madeUp(), base());
  auto read = cost::readDeviceFile(written(describe(device, madeUp(), {}, "a processor")));
  ASSERT_TRUE(read.ok()) << rt::renderText(read.error());
  expectMadeUp(*read);
}

TEST(Describe, WhatIsNotSoIsRefused) {
  const cost::Device device = fit(madeUp(), base());
  std::string text = describe(device, madeUp(), {}, "");
  auto kindOf = [&](const std::string &from, const std::string &to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    auto read = cost::readDeviceFile(written(changed.replace(at, from.size(), to)));
    return read.ok() ? std::string() : read.error().kind;
  };
  EXPECT_EQ(kindOf("\"m\": [16.0, 64.0]", "\"m\": [64.0, 16.0]"), "device.bad_curve");
  EXPECT_EQ(kindOf("\"m\": [16.0, 64.0]", "\"m\": [16.0]"), "device.bad_curve");
  EXPECT_EQ(kindOf("\"keys\": [64.0, 256.0]", "\"keys\": [64.0, -1.0]"), "device.bad_curve");
  EXPECT_EQ(kindOf("\"lanes\"", "\"lanez\""), "device.unknown_key");
  // Near tables are not of other sizes, nor farther than far ones.
  EXPECT_EQ(kindOf("\"near_tables\": {\"fp32\": {\"plain\": {\"m\": [16.0, 64.0]",
                   "\"near_tables\": {\"fp32\": {\"plain\": {\"m\": [16.0, 65.0]"),
            "device.bad_curve");
  EXPECT_EQ(kindOf("\"near_around\": 1e+06", "\"near_around\": 1e9"), "device.bad_curve");
  EXPECT_EQ(kindOf("\"tables_around\": 1e+08, ", ""), "device.missing_key");
  EXPECT_EQ(cost::readDeviceFile(written("{\"nodes\": 1}")).error().kind,
            "device.not_a_description");
}

TEST(Device, AtItsBestIsNeverSlower) {
  const cost::Device device = fit(madeUp(), base()), best = device.atBest();
  for (double bytes : {1e3, 1e5, 1e7, 1e9})
    EXPECT_LE(cost::streamTime(best, Bytes(bytes)), cost::streamTime(device, Bytes(bytes)));
  for (double m : {16., 40., 64., 1e6})
    for (double around : {1e5, 1e7, 1e9})
      EXPECT_LE(
          cost::productTime(best, {1e7, 64, 64, 32}, 1) * (m / 1e7),
          cost::productTime(device, {m, 64, 64, 32, 2, true, false, false, Bytes(around)}, 1) *
              (1 + 1e-9));
}

} // namespace
} // namespace cleave::calibrate

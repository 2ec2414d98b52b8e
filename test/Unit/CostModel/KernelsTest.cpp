//===- KernelsTest.cpp - Closed forms of kernels, and published ones --------===//

#include "cleave/CostModel/Kernels.h"
#include <gtest/gtest.h>

namespace cleave::cost {
namespace {

Device plain() {
  Device device;
  device.bandwidth = BytesPerSecond(1e13);
  device.streaming = 1;
  device.product.rate[16] = OperationsPerSecond(1e14);
  device.product.tiles = {{128, 128, 1}};
  device.product.units = 10;
  device.product.waveExponent = 1;
  device.attention["flash2"] = {OperationsPerSecond(1e14), OperationsPerSecond(5e13)};
  return device;
}

TEST(Products, FullWavesRunAtTheRate) {
  // 10 tiles on 10 multiprocessors.
  const Seconds time = productTime(plain(), {128, 1280, 100000, 16, 2}, 1);
  EXPECT_NEAR(time.value, 2. * 128 * 1280 * 100000 / 1e14, 1e-12);
}

TEST(Products, AnUnfilledWaveTakesAsLong) {
  // 11 tiles take two waves: as long as 20.
  const Seconds eleven = productTime(plain(), {128, 1408, 100000, 16, 2}, 1);
  const Seconds twenty = productTime(plain(), {128, 2560, 100000, 16, 2}, 1);
  EXPECT_NEAR(eleven.value, twenty.value, 1e-12);
}

TEST(Products, ThinOnesMoveBytes) {
  // One row: the matrix is read at 0.8 of the bandwidth. A tile of one row wastes nothing.
  Device device = plain();
  device.product.tiles = {{1, 128, 1}};
  const Seconds time = productTime(device, {1, 4096, 4096, 16, 2}, 1);
  const double bytes = 2. * 4096 * (1 + 4096) + 2. * 4096;
  EXPECT_NEAR(time.value, bytes / 0.8e13, 1e-9);
}

TEST(Products, DepthHalvesTheRateAtItsOwnSize) {
  Device device = plain();
  device.product.depth[16] = 1000;
  const Seconds flat = productTime(plain(), {1280, 1280, 1000, 16, 2}, 1);
  EXPECT_NEAR(productTime(device, {1280, 1280, 1000, 16, 2}, 1) / flat, 2, 1e-9);
}

TEST(GroupedProducts, HalfTheRateAtThreeHundredRows) {
  const Seconds time = groupedProductTime(plain(), {2400, 4096, 4096, 16, 2}, 8, 1);
  EXPECT_NEAR(time.value, 2 * 2. * 2400 * 4096 * 4096 / 1e14, 1e-9);
}

TEST(Scores, CausalWorkAtTheRateOfItsLength) {
  // 2 · q · k/2 · (64 + 64)… at rate / (1 + 675/k).
  const ScoresSize size{1e6, 8192, 128, 128, std::nullopt};
  const double work = 2. * 1e6 * 4096 * 256;
  EXPECT_NEAR(scoresTime(plain(), "flash2", size, false, 1).value,
              work / (1e14 / (1 + 675. / 8192)), 1e-9);
  EXPECT_NEAR(scoresTime(plain(), "flash2", size, true, 1).value,
              2.5 * work / (5e13 / (1 + 675. / 8192)), 1e-9);
}

TEST(Scores, WithoutAMaskAllKeysAndAShorterRamp) {
  ScoresSize size{1e6, 8192, 128, 128, std::nullopt};
  size.causal = false;
  EXPECT_NEAR(scoresTime(plain(), "flash2", size, false, 1).value,
              2. * 1e6 * 8192 * 256 / (1e14 / (1 + 250. / 8192)), 1e-9);
}

TEST(Scores, NarrowHeadsHaveARateOfTheirOwn) {
  Device device = plain();
  const ScoresSize size{1e6, 8192, 64, 64, std::nullopt};
  device.attention["flash2"].narrow = 1;
  const Seconds full = scoresTime(device, "flash2", size, false, 1);
  device.attention["flash2"].narrow = 0.5;
  EXPECT_NEAR(scoresTime(device, "flash2", size, false, 1) / full, 2, 1e-9);
}

TEST(Scores, AWindowBoundsTheWork) {
  const ScoresSize all{1e6, 65536, 128, 128, std::nullopt};
  ScoresSize some = all;
  some.window = 128;
  // 256 times less work, at the rate of so few keys.
  EXPECT_LT(scoresTime(plain(), "flash2", some, false, 1).value,
            0.03 * scoresTime(plain(), "flash2", all, false, 1).value);
}

TEST(Scores, AShortWindowHasARateOfItsOwn) {
  Device device = plain();
  ScoresSize size{1e6, 65536, 128, 128, 128.};
  const double work = 2. * 1e6 * 128 * 256;
  EXPECT_NEAR(scoresTime(device, "flash2", size, false, 1).value, work / (1e14 / (1 + 675. / 128)),
              1e-9);
  device.attention["window"] = {OperationsPerSecond(1e13), OperationsPerSecond(1e13)};
  EXPECT_NEAR(scoresTime(device, "flash2", size, false, 1).value, work / 1e13, 1e-9);
  // 1,024 keys fill tiles.
  size.window = 1024;
  EXPECT_NEAR(scoresTime(device, "flash2", size, false, 1).value,
              8 * work / (1e14 / (1 + 675. / 1024)), 1e-9);
}

TEST(Published, ProductsOfDevices) {
  // kernels.csv: k-aiconfigurator-gemm-0002 and -0003.
  auto a100 = readDevice(CLEAVE_SHARE, "a100-sxm-80gb");
  ASSERT_TRUE(a100.ok());
  EXPECT_NEAR(productTime(*a100, {8192, 16384, 5120, 16, 2}, 1).value / 5332.719e-6, 1, 0.08);
  EXPECT_NEAR(productTime(*a100, {8192, 16384, 2048, 16, 2}, 1).value / 2185.762e-6, 1, 0.08);
}

} // namespace
} // namespace cleave::cost

//===- CollectivesTest.cpp - Closed forms of exchanges ---------------------===//

#include "cleave/CostModel/Collectives.h"
#include <gtest/gtest.h>

namespace cleave::cost {
namespace {

Device plain() {
  Device device;
  device.link.domain = 8;
  device.link.bandwidth = BytesPerSecond(1e11);
  device.network.bandwidth = BytesPerSecond(1e10);
  device.network.share = 1;
  return device;
}

TEST(Exchanges, OneRankExchangesNothing) {
  EXPECT_EQ(exchangeTime(plain(), Exchange::AllReduce, {1, 1}, Bytes(1e9)), Seconds(0));
}

TEST(Exchanges, BandwidthTermsOfNcclTests) {
  // busbw: (n - 1)/n of the larger buffer, twice for an all-reduce.
  const Seconds gather = exchangeTime(plain(), Exchange::AllGather, {4, 4}, Bytes(4e9));
  EXPECT_NEAR(gather.value, 4e9 * 3 / 4 / 1e11, 1e-12);
  EXPECT_NEAR(exchangeTime(plain(), Exchange::AllReduce, {4, 4}, Bytes(4e9)) / gather, 2, 1e-12);
}

TEST(Exchanges, BetweenDomainsTheNetworkIsShared) {
  // 16 ranks, 8 of them in each of two domains: half goes over 8 rails.
  const Seconds time = exchangeTime(plain(), Exchange::AllGather, {16, 8}, Bytes(16e9));
  EXPECT_NEAR(time.value, std::max(16e9 / 2 / (8 * 1e10), 16e9 * 7 / 8 / 1e11), 1e-12);
  // One rank of each domain: a rail alone.
  const Seconds thin = exchangeTime(plain(), Exchange::AllGather, {16, 1}, Bytes(16e9));
  EXPECT_NEAR(thin.value, 16e9 * 15 / 16 / 1e10, 1e-12);
}

TEST(Exchanges, KindsReachAShareOfTheLinks) {
  Device device = plain();
  device.link.kinds[static_cast<size_t>(Exchange::AllToAll)] = {0.5, 0.8};
  const auto timeOf = [&](int64_t ranks) {
    return exchangeTime(device, Exchange::AllToAll, {ranks, ranks}, Bytes(4e9)).value;
  };
  EXPECT_NEAR(timeOf(4), 4e9 * 3 / 4 / 0.5e11, 1e-12);
  EXPECT_NEAR(timeOf(2), 4e9 / 2 / 0.4e11, 1e-12);
  // The switch adds to sums from 6 devices on, and never to messages of everyone to everyone.
  device.link.inSwitch = 2;
  EXPECT_NEAR(timeOf(8), 4e9 * 7 / 8 / 0.5e11, 1e-12);
  EXPECT_NEAR(exchangeTime(device, Exchange::AllReduce, {8, 8}, Bytes(4e9)).value,
              4e9 * 2 * 7 / 8 / 2e11, 1e-12);
}

TEST(Exchanges, LatencyGrowsWithHops) {
  Device device = plain();
  device.link.start = Seconds(1e-5);
  device.link.hop = Seconds(1e-6);
  EXPECT_NEAR(exchangeTime(device, Exchange::AllGather, {8, 8}, Bytes(0)).value, 1.7e-5, 1e-12);
  EXPECT_NEAR(exchangeTime(device, Exchange::AllReduce, {8, 8}, Bytes(0)).value, 2.4e-5, 1e-12);
}

} // namespace
} // namespace cleave::cost

//===- OtherWorkTest.cpp - A machine that is busy is noticed ---------------===//

#include "cleave/Calibrate/OtherWork.h"
#include <gtest/gtest.h>

#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace cleave::calibrate {
namespace {

TEST(OtherWork, TicksAreThoseOfTheCores) {
  const std::string text = "cpu  111 0 0 0 0 0 0 0 0 0\n"
                           "cpu0 1 2 3 1000 2000 4 5 6 700 800\n"
                           "cpu1 10 20 30 1000 2000 40 50 60 700 800\n"
                           "cpu10 9 9 9 9 9 9 9 9 9 9\n"
                           "intr 5\n";
  EXPECT_EQ(busyTicks(text, {0}), 21);
  EXPECT_EQ(busyTicks(text, {0, 1}), 231);
  EXPECT_EQ(busyTicks(text, {10}), 54);
  EXPECT_EQ(busyTicks(text, {2}), std::nullopt);
  EXPECT_EQ(busyTicks("", {0}), std::nullopt);
}

/// A process beside this one is seen, and what this one does is not taken for another's.
TEST(OtherWork, AnotherProcessIsSeen) {
  const OtherWork none;
  if (!none.share())
    GTEST_SKIP() << "the kernel does not say what cores do";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0)
    for (volatile int spin = 0;; spin = spin + 1)
      ;
  const OtherWork others;
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const double share = *others.share();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  // Beside other processes all cores are busy, whoever has them.
  EXPECT_GT(share, 0.5 / cores);
  EXPECT_LE(share, 1);
}

/// Rounds of products that take so many seconds each.
std::vector<Timings> roundsOf(const std::vector<double> &seconds) {
  std::vector<Timings> rounds;
  for (double s : seconds) {
    Timings &round = rounds.emplace_back();
    for (int i = 1; i <= 5; ++i)
      round.products.push_back({.time = cost::Seconds(i * s)});
  }
  return rounds;
}

TEST(OtherWork, RoundsThatDifferAreSeen) {
  EXPECT_EQ(spreadOf(roundsOf({1})), std::nullopt);
  EXPECT_NEAR(*spreadOf(roundsOf({1, 1.01})), 0.01, 1e-12);
  EXPECT_NEAR(*spreadOf(roundsOf({1.4, 1, 1.3})), 0.3, 1e-12);
  // One slow round of many is what rounds are for.
  EXPECT_NEAR(*spreadOf(roundsOf({1, 3, 1, 1, 1})), 0, 1e-12);
}

TEST(OtherWork, ABusyMachineIsSaidAndAQuietOneIsNot) {
  EXPECT_EQ(noteOfBusy({}), "");
  EXPECT_EQ(noteOfBusy({0.01, 0.02, 0.03}), "");
  EXPECT_NE(noteOfBusy({0.01, 0.4, std::nullopt}).find("40 %"), std::string::npos);
  EXPECT_NE(noteOfBusy({0.5, 0.02, 0.01}).find("50 %"), std::string::npos);
  EXPECT_NE(noteOfBusy({std::nullopt, std::nullopt, 0.31}).find("31 %"), std::string::npos);
}

} // namespace
} // namespace cleave::calibrate

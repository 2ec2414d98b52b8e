// Threads meet: what each wrote before is seen by all after, with and without spinning; and a
// meeting that is broken off took place for all or for none.
#include "runtime/Base/Waiting.h"

#include <gtest/gtest.h>

#include <thread>

using namespace cleave::rt;

namespace {

TEST(Barrier, ShowsWhatAllWroteBefore) {
  for (const auto spin : {std::chrono::nanoseconds(0), defaultSpin}) {
    constexpr size_t parties = 5;
    constexpr int meetings = 2000;
    Barrier barrier(parties, spin);
    std::vector<int> written(parties * 2, 0); // two places each, in turn
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (size_t self = 0; self < parties; ++self)
      threads.emplace_back([&, self] {
        for (int i = 1; i <= meetings; ++i) {
          const size_t place = static_cast<size_t>(i % 2) * parties;
          written[place + self] = i;
          wrong += !barrier.arriveAndWait(self);
          for (size_t other = 0; other < parties; ++other)
            wrong += written[place + other] != i;
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Barrier, ANoteStaysUntilItsReaderComesAgain) {
  for (const auto spin : {std::chrono::nanoseconds(0), defaultSpin}) {
    constexpr size_t parties = 4;
    Barrier barrier(parties, spin);
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (size_t self = 0; self < parties; ++self)
      threads.emplace_back([&, self] {
        for (size_t i = 1; i <= 2000; ++i) {
          // Written while others still read that of the meeting before.
          barrier.nextNote<size_t>(self) = i * parties + self;
          wrong += !barrier.arriveAndWait(self);
          if ((i + self) % 3 == 0)
            std::this_thread::yield();
          for (size_t other = 0; other < parties; ++other)
            wrong += barrier.note<size_t>(other, self) != i * parties + other;
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Barrier, WhoIsWokenSeesTheNotesOfAllOthers) {
  constexpr size_t parties = 3;
  Barrier enter(parties), leave(parties);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (size_t self = 0; self < parties; ++self)
    threads.emplace_back([&, self] {
      for (size_t i = 1; i <= 20000; ++i) {
        enter.nextNote<size_t>(self) = i;
        wrong += !enter.arriveAndWait(self);
        for (size_t other = 0; other < parties; ++other)
          wrong += enter.note<size_t>(self, other) != i;
        wrong += !leave.arriveAndWait(self);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Barrier, BreakingWakesTheWaiting) {
  Barrier barrier(3);
  std::atomic<int> woken{0};
  std::vector<std::thread> threads;
  for (size_t self = 0; self < 2; ++self)
    threads.emplace_back([&, self] { woken += !barrier.arriveAndWait(self); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(woken, 0);
  barrier.breakUp();
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(woken, 2);
  EXPECT_FALSE(barrier.arriveAndWait(2));
}

TEST(Barrier, AllAgreeWhichMeetingsTookPlace) {
  constexpr size_t parties = 4;
  for (int run = 0; run < 300; ++run) {
    Barrier barrier(parties, run % 2 ? defaultSpin : std::chrono::nanoseconds(0));
    std::vector<int> meetings(parties, 0);
    std::atomic<int> reached{0};
    std::vector<std::thread> threads;
    for (size_t self = 0; self < parties; ++self)
      threads.emplace_back([&, self] {
        while (barrier.arriveAndWait(self)) {
          ++meetings[self];
          reached = meetings[self];
        }
      });
    while (reached < run % 7)
      std::this_thread::yield();
    barrier.breakUp();
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(meetings, std::vector<int>(parties, meetings[0]));
  }
}

} // namespace

// Threads meet: what each wrote before is seen by all after, with and without spinning.
#include "runtime/Base/Waiting.h"

#include <gtest/gtest.h>

#include <thread>

using namespace cleave::rt;

namespace {

TEST(Farewell, ShowsWhatAllWroteBefore) {
  for (const auto spin : {std::chrono::nanoseconds(0), defaultSpin}) {
    constexpr size_t parties = 5;
    constexpr int meetings = 2000;
    Farewell farewell(parties, spin);
    std::vector<int> written(parties * 2, 0); // two places each, in turn
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (size_t self = 0; self < parties; ++self)
      threads.emplace_back([&, self] {
        for (int i = 1; i <= meetings; ++i) {
          const size_t place = static_cast<size_t>(i % 2) * parties;
          written[place + self] = i;
          farewell.arriveAndWait(self);
          for (size_t other = 0; other < parties; ++other)
            wrong += written[place + other] != i;
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

} // namespace

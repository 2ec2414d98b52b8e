// The pool's cut is exact and fixed, its errors are returned, its barrier holds.
#include "runtime/Base/ThreadPool.h"
#include "runtime/Base/Machine.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <stdexcept>

using namespace cleave::rt;

namespace {

TEST(ChunkOf, CoversTheRangeOnceOnGrainBorders) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    const size_t begin = random() % 100, length = random() % 300, grain = random() % 20;
    const unsigned count = 1 + random() % 9;
    size_t at = begin, longest = 0, shortest = SIZE_MAX;
    for (unsigned i = 0; i < count; ++i) {
      const Chunk chunk = chunkOf(begin, begin + length, grain, i, count);
      ASSERT_EQ(chunk.begin, at);
      ASSERT_GE(chunk.end, chunk.begin);
      if (chunk.end != begin + length)
        ASSERT_EQ((chunk.end - begin) % std::max<size_t>(grain, 1), 0u);
      longest = std::max(longest, chunk.end - chunk.begin);
      shortest = std::min(shortest, chunk.end - chunk.begin);
      at = chunk.end;
    }
    ASSERT_EQ(at, begin + length);
    ASSERT_LT(longest - shortest, 2 * std::max<size_t>(grain, 1));
  }
}

TEST(ThreadPool, VisitsEachItemOnceWithAFixedCut) {
  for (unsigned workers : {1u, 2u, 3u, 8u}) {
    ThreadPool pool(workers);
    EXPECT_EQ(pool.size(), workers);
    for (size_t length : {0, 1, 2, 7, 64, 1000}) {
      std::vector<int> visits(length, 0), owner(length, -1);
      for (int repeat = 0; repeat < 50; ++repeat) {
        const Status status =
            pool.parallelFor(0, length, 4, [&](size_t begin, size_t end, unsigned worker) {
              for (size_t i = begin; i < end; ++i) {
                ++visits[i];
                if (repeat > 0)
                  EXPECT_EQ(owner[i], static_cast<int>(worker));
                owner[i] = static_cast<int>(worker);
              }
            });
        ASSERT_TRUE(status.ok());
      }
      for (int count : visits)
        ASSERT_EQ(count, 50);
    }
  }
}

TEST(ThreadPool, RunsManyShortJobs) {
  ThreadPool pool(4, std::chrono::nanoseconds(0));
  std::atomic<int> total{0};
  for (int i = 0; i < 20000; ++i)
    ASSERT_TRUE(pool.parallelFor(0, 4, 1,
                                 [&](size_t begin, size_t end, unsigned) {
                                   total += static_cast<int>(end - begin);
                                 })
                    .ok());
  EXPECT_EQ(total, 80000);
}

TEST(ThreadPool, RefusesNestedUseAndStaysUsable) {
  ThreadPool pool(2);
  std::string nested;
  const Status status = pool.parallelFor(0, 2, 1, [&](size_t, size_t, unsigned worker) {
    if (worker == 1)
      nested = pool.parallelFor(0, 2, 1, [](size_t, size_t, unsigned) {}).error().kind;
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(nested, "internal");
  EXPECT_TRUE(pool.parallelFor(0, 2, 1, [](size_t, size_t, unsigned) {}).ok());
}

TEST(ThreadPool, TurnsExceptionsIntoErrors) {
  ThreadPool pool(3);
  const Status status = pool.parallelFor(0, 3, 1, [](size_t, size_t, unsigned worker) {
    if (worker > 0)
      throw std::runtime_error("worker " + std::to_string(worker));
  });
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("worker 1"), std::string::npos);
  EXPECT_TRUE(pool.parallelFor(0, 3, 1, [](size_t, size_t, unsigned) {}).ok());
}

TEST(Machine, HasCoresAndMemory) {
  const MachineInfo info = probeMachine();
  EXPECT_GE(info.usableCores, 1u);
  EXPECT_LE(info.usableCores, std::max(1u, std::thread::hardware_concurrency()));
  EXPECT_GT(info.memoryBytes, 1u << 26);
  EXPECT_GT(peakResidentBytes(), 1u << 20);
}

} // namespace

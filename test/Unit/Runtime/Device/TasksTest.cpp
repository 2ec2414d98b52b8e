// Every task runs once, whatever the number of workers.
#include "runtime/Device/CPU/Tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

using namespace cleave::rt;

namespace {

TEST(Tasks, RunsEveryTaskOnce) {
  for (unsigned workers : {1u, 2u, 5u}) {
    ThreadPool pool(workers);
    for (int64_t count : {0, 1, 2, 3, 100}) {
      std::vector<std::atomic<int>> runs(count);
      ASSERT_TRUE(runTasks(pool, count, [&](int64_t task, unsigned worker) {
                    EXPECT_LT(worker, workers);
                    ++runs[task];
                  }).ok());
      for (auto &times : runs)
        EXPECT_EQ(times, 1);
    }
  }
}

TEST(Tasks, ReportsWhatATaskThrew) {
  ThreadPool pool(2);
  const Status status = runTasks(pool, 10, [](int64_t task, unsigned) {
    if (task == 3)
      throw std::runtime_error("third");
  });
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("third"), std::string::npos);
}

} // namespace

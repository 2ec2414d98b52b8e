// Tasks handed out from one counter.
#include "runtime/Device/CPU/Tasks.h"

#include <algorithm>
#include <atomic>

namespace cleave::rt {

Status runTasks(ThreadPool &pool, int64_t count, TaskBody body) {
  std::atomic<int64_t> next{0};
  const size_t workers =
      std::min<size_t>(pool.size(), static_cast<size_t>(std::max<int64_t>(count, 0)));
  return pool.parallelFor(0, workers, 1, [&](size_t, size_t, unsigned worker) {
    for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < count;)
      body(task, worker);
  });
}

} // namespace cleave::rt

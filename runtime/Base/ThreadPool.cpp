// A pool whose jobs are announced by an epoch and ended by a count.
#include "runtime/Base/ThreadPool.h"

#include "runtime/Base/Uncaught.h"

#include <algorithm>
#include <exception>

namespace cleave::rt {

Chunk chunkOf(size_t begin, size_t end, size_t grain, unsigned index, unsigned count) {
  grain = std::max<size_t>(grain, 1);
  const size_t length = end > begin ? end - begin : 0;
  const size_t grains = length / grain + (length % grain != 0);
  // The first `longer` pieces have one grain more than the others.
  const size_t each = grains / count, longer = grains % count;
  const size_t first = index * each + std::min<size_t>(index, longer);
  const size_t last = first + each + (index < longer ? 1 : 0);
  return {begin + std::min(first * grain, length), begin + std::min(last * grain, length)};
}

ThreadPool::ThreadPool(unsigned workers, std::chrono::nanoseconds spin)
    : spin(spin), failures(std::max(workers, 1u)) {
  threads.reserve(failures.size() - 1);
  try {
    for (unsigned worker = 1; worker < failures.size(); ++worker)
      threads.emplace_back([this, worker] { serve(worker); });
  } catch (...) {
    // The system has no more of them; no thread may outlive its object.
    endThreads();
    throw;
  }
}

ThreadPool::~ThreadPool() { endThreads(); }

void ThreadPool::endThreads() {
  stopping = true;
  epoch.fetch_add(1, std::memory_order_release);
  epoch.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void ThreadPool::runChunk(unsigned worker) {
  if (worker >= job.chunks)
    return;
  const Chunk chunk = chunkOf(job.begin, job.end, job.grain, worker, job.chunks);
  try {
    (*job.body)(chunk.begin, chunk.end, worker);
  } catch (...) {
    failures[worker] = std::current_exception();
  }
}

void ThreadPool::serve(unsigned worker) {
  // Jobs start at epoch 1 and the pool waits for every worker each time, so
  // none can be missed.
  for (uint32_t seen = 0;;) {
    seen = waitForChange(epoch, seen, spin);
    if (stopping)
      return;
    runChunk(worker);
    if (unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1)
      unfinished.notify_one();
  }
}

Status ThreadPool::parallelFor(size_t begin, size_t end, size_t grain, RangeBody body) {
  if (end <= begin)
    return Status::success();
  if (busy.exchange(true, std::memory_order_acquire))
    return internalError("the thread pool is in use: parallelFor inside a body, or from two "
                         "threads at once");
  grain = std::max<size_t>(grain, 1);
  const size_t grains = (end - begin - 1) / grain + 1;
  job = {begin, end, grain, static_cast<unsigned>(std::min<size_t>(grains, size())), &body};
  if (job.chunks > 1) {
    unfinished.store(static_cast<uint32_t>(threads.size()), std::memory_order_relaxed);
    epoch.fetch_add(1, std::memory_order_release);
    epoch.notify_all();
  }
  runChunk(0);
  if (job.chunks > 1)
    for (uint32_t left = unfinished.load(std::memory_order_acquire); left != 0;)
      left = waitForChange(unfinished, left, spin);
  Status status;
  for (std::exception_ptr &failure : failures)
    if (failure && status.ok())
      status = errorOf(failure, "a kernel");
  if (!status.ok())
    std::ranges::fill(failures, nullptr);
  busy.store(false, std::memory_order_release);
  return status;
}

} // namespace cleave::rt

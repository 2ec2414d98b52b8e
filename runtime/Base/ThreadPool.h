// The one pool of threads of a rank. Kernels are run over a range that is cut
// into one contiguous chunk per worker; the cut depends only on the range, the
// grain and the number of workers, so that a run is the same from day to day.
// There is no task queue and no stealing: kernels of a training step are even,
// and a queue would make the order of work depend on time.
//
// The thread that calls is worker 0; the pool belongs to it. Calls from inside
// a body, or from two threads at once, are refused with an error.
#pragma once

#include "runtime/Base/FunctionRef.h"
#include "runtime/Base/Status.h"
#include "runtime/Base/Waiting.h"

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace cleave::rt {

/// A half-open piece of a range.
struct Chunk {
  size_t begin;
  size_t end;
};

/// Piece `index` of `count` of [begin, end): lengths differ by at most one
/// grain, and inner borders are at multiples of `grain` from `begin`. Empty
/// pieces come last.
Chunk chunkOf(size_t begin, size_t end, size_t grain, unsigned index, unsigned count);

class ThreadPool {
public:
  using RangeBody = FunctionRef<void(size_t begin, size_t end, unsigned worker)>;

  /// `workers` counts the caller, so `workers - 1` threads are started. Throws what
  /// std::thread throws where the system has no more.
  explicit ThreadPool(unsigned workers, std::chrono::nanoseconds spin = defaultSpin);
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;
  ~ThreadPool();

  unsigned size() const { return static_cast<unsigned>(threads.size()) + 1; }

  /// Calls `body` once per non-empty chunk and returns when all have returned.
  /// Each chunk but the last has at least `grain` items. An exception in a body
  /// becomes an `internal` error (of the lowest worker that threw).
  Status parallelFor(size_t begin, size_t end, size_t grain, RangeBody body);

private:
  void endThreads();

  struct Job {
    size_t begin, end, grain;
    unsigned chunks;
    const RangeBody *body;
  };

  void serve(unsigned worker);
  void runChunk(unsigned worker);

  const std::chrono::nanoseconds spin;
  Job job = {};
  bool stopping = false;
  std::atomic<bool> busy{false};
  /// Bumped for each job; workers watch it.
  std::atomic<uint32_t> epoch{0};
  /// Workers that have not finished the present job.
  std::atomic<uint32_t> unfinished{0};
  std::vector<std::exception_ptr> failures;
  std::vector<std::thread> threads;
};

} // namespace cleave::rt

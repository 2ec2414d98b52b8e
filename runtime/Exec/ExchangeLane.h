// The thread on which a rank's exchanges run beside its commands: jobs one after the
// other, in the order in which they were started. It knows nothing of what they do.
//
// A job may wait for other ranks. So a lane can only be ended when what is on its way
// comes to its end: after a failure the run must be ended first, which wakes all.
#pragma once

#include "runtime/Base/Status.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace cleave::rt {

class ExchangeLane {
public:
  using Job = std::function<Status()>;

  ExchangeLane();
  ExchangeLane(const ExchangeLane &) = delete;
  ExchangeLane &operator=(const ExchangeLane &) = delete;
  /// Waits for the job that runs; leaves out those behind it.
  ~ExchangeLane();

  /// Begins `job`, which must live until it is done, behind those begun before. Returns its
  /// number, from 1.
  uint64_t start(const Job &job);
  /// Waits until job `number` is done. The error of the first job that failed; jobs behind
  /// that one are left out.
  Status await(uint64_t number);
  /// Waits until all are done, however that ends.
  void awaitAll();
  /// Whether it is done, without waiting.
  bool isDone(uint64_t number) const;
  /// Whether all are.
  bool isIdle() const;

private:
  void run();

  mutable std::mutex mutex;
  std::condition_variable begun, ended;
  // Guarded by mutex.
  std::deque<const Job *> jobs;
  uint64_t started = 0, done = 0;
  bool isOver = false;
  Status failure;
  std::thread thread;
};

} // namespace cleave::rt

// SIGINT and SIGTERM as a wish, not an accident: the first asks the run to stop
// after the present step, the second ends the process at once (exit 130). While
// one of these lives, both signals are blocked in the creating thread and in the
// threads started from it, and a thread of its own waits for them; so there is
// no signal handler and no global flag.
#pragma once

#include <atomic>
#include <csignal>
#include <thread>

namespace cleave::rt {

class StopSignals {
public:
  StopSignals();
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;
  /// Restores the creating thread's signal mask.
  ~StopSignals();

  bool requested() const { return stop.load(std::memory_order_relaxed); }

private:
  void watch();

  std::atomic<bool> stop{false};
  std::atomic<bool> done{false};
  sigset_t watched;
  sigset_t before;
  std::thread watcher;
};

} // namespace cleave::rt

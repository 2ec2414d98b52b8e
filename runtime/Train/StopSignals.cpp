// signalfd around a blocked mask.
#include "runtime/Train/StopSignals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

namespace cleave::rt {

static int64_t nanosecondsNow() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

/// When the first signal was seen. A handler is told nothing.
static std::atomic<int64_t> firstSeen = 0;

/// Whatever comes after the first.
static void handleFurther(int number) {
  if (nanosecondsNow() - firstSeen.load() < int64_t{1'000'000'000})
    return;
  ::signal(number, SIG_DFL);
  ::raise(number);
}

constexpr int stopSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

/// The signals that ask a run to stop and that the caller has not switched off.
/// Held back, they would be queued although they are to be ignored.
static sigset_t stopSet() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : stopSignals) {
    struct sigaction action = {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
      sigaddset(&set, number);
  }
  return set;
}

StatusOr<StopSignals> StopSignals::create() {
  const sigset_t set = stopSet();
  if (::pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0)
    return internalError("cannot hold back the signals that stop a run");
  FileDescriptor source(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!source.valid())
    return internalError("cannot read signals from a descriptor");
  return StopSignals(std::move(source), set);
}

StopSignals::~StopSignals() {
  // What came while the run ended asks for what has been done.
  if (source.valid() && !requested())
    ::pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
}

bool StopSignals::requested() {
  if (seen)
    return true;
  signalfd_siginfo info;
  if (::read(source.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    seen = true;
    firstSeen = nanosecondsNow();
    struct sigaction action = {};
    action.sa_handler = handleFurther;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (int number : stopSignals)
      if (sigismember(&held, number) == 1)
        ::sigaction(number, &action, nullptr);
    ::pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
  }
  return seen;
}

void reportFailedWrites() {
  for (int number : {SIGPIPE, SIGXFSZ})
    ::signal(number, SIG_IGN);
}

} // namespace cleave::rt

// signalfd around a blocked mask.
#include "runtime/Train/StopSignals.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace cleave::rt {

/// The signals that ask a run to stop and that the caller has not switched off.
/// Held back, they would be queued although they are to be ignored.
static sigset_t stopSet() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
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
  if (source.valid() && !seen)
    ::pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
}

bool StopSignals::requested() {
  if (seen)
    return true;
  signalfd_siginfo info;
  if (::read(source.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    seen = true;
    ::pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
  }
  return seen;
}

void reportFailedWrites() {
  for (int number : {SIGPIPE, SIGXFSZ})
    ::signal(number, SIG_IGN);
}

} // namespace cleave::rt

// signalfd around a blocked mask.
#include "runtime/Train/StopSignals.h"

#include <csignal>

#include <sys/signalfd.h>
#include <unistd.h>

namespace cleave::rt {

static sigset_t stopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

StatusOr<StopSignals> StopSignals::create() {
  const sigset_t set = stopSet();
  if (::pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0)
    return internalError("cannot hold back SIGINT and SIGTERM");
  FileDescriptor source(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!source.valid())
    return internalError("cannot read signals from a descriptor");
  return StopSignals(std::move(source));
}

StopSignals::~StopSignals() {
  const sigset_t set = stopSet();
  if (source.valid() && !seen)
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

bool StopSignals::requested() {
  if (seen)
    return true;
  signalfd_siginfo info;
  if (::read(source.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    seen = true;
    const sigset_t set = stopSet();
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  }
  return seen;
}

} // namespace cleave::rt

// Waiting for signals in a thread.
#include "runtime/Train/StopSignals.h"

#include "runtime/Base/Status.h"

#include <unistd.h>

#include <ctime>

namespace cleave::rt {

StopSignals::StopSignals() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGINT);
  sigaddset(&watched, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &watched, &before);
  watcher = std::thread([this, watched] { watch(watched); });
}

StopSignals::~StopSignals() {
  done = true;
  watcher.join();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void StopSignals::watch(const sigset_t &watched) {
  // Looks up now and then, since nothing else could end the wait.
  const timespec moment{0, 50'000'000};
  while (!done) {
    if (sigtimedwait(&watched, nullptr, &moment) < 0)
      continue;
    if (stop.exchange(true))
      ::_exit(static_cast<int>(ExitCode::Interrupted));
  }
}

} // namespace cleave::rt

// Waiting for signals in a thread.
#include "runtime/Train/StopSignals.h"

#include "runtime/Base/Status.h"

#include <unistd.h>

#include <ctime>

namespace cleave::rt {

StopSignals::StopSignals() {
  sigemptyset(&watched);
  sigaddset(&watched, SIGINT);
  sigaddset(&watched, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &watched, &before);
  watcher = std::thread([this] { watch(); });
}

StopSignals::~StopSignals() {
  done = true;
  watcher.join();
  // A signal that came after the last look is a wish that came too late: it must
  // not end the process once the mask is lifted.
  const timespec now{0, 0};
  while (sigtimedwait(&watched, nullptr, &now) >= 0) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void StopSignals::watch() {
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

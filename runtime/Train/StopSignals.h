// Ending a run cleanly on SIGINT, SIGTERM, SIGHUP, or SIGUSR1, which launchers pass on
// and batch systems send before a limit. The signals are held back from
// every thread and read from a descriptor between steps. A later signal, if saving
// takes too long for the user, kills as usual; one that comes within a second of the
// first belongs to it, since a terminal and a launcher, or a launcher and a batch system,
// each send theirs. A signal that the caller has switched off (nohup, a job in the
// background of a script) stays off.
#pragma once

#include "runtime/Base/Files.h"

#include <csignal>

namespace cleave::rt {

class StopSignals {
public:
  /// Must be called before other threads start: they inherit the mask.
  /// `internal` if the system refuses.
  static StatusOr<StopSignals> create();
  StopSignals(StopSignals &&) = default;
  StopSignals &operator=(StopSignals &&) = delete;
  /// Lets the signals through again.
  ~StopSignals();

  /// True from the first signal on. Does not block. To be called by the thread
  /// that created the object.
  bool requested();

private:
  StopSignals(FileDescriptor source, sigset_t held) : source(std::move(source)), held(held) {}
  FileDescriptor source;
  sigset_t held;
  bool seen = false;
};

/// Lets a write to a closed pipe, or beyond the limit of a file's size, fail with
/// an error instead of ending the process: a reader that has gone away is no
/// reason to lose a run.
void reportFailedWrites();

} // namespace cleave::rt

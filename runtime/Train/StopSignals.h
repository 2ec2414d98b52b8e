// Ending a run cleanly on SIGINT or SIGTERM. The signals are held back from
// every thread and read from a descriptor between steps, so there is no handler
// and no global flag; the second signal, if saving takes too long for the user,
// kills as usual.
#pragma once

#include "runtime/Base/Files.h"

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
  explicit StopSignals(FileDescriptor source) : source(std::move(source)) {}
  FileDescriptor source;
  bool seen = false;
};

} // namespace cleave::rt

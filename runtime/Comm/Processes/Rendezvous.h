// How the processes of a run find each other: each says who it is over the
// transport, and opens a connection to the first, the leader. Internal to
// Comm/Processes.
#pragma once

#include "runtime/Base/Status.h"
#include "runtime/Comm/Processes/Wire.h"
#include "runtime/Comm/Transport.h"

#include <string>
#include <vector>

namespace cleave::rt {

/// What a process says about itself.
struct ProcessInfo {
  std::string host;
  int64_t pid = 0;
  /// The cores it may use, as text to compare.
  std::string cores;

  /// "process 2 on host nd3, pid 4711"
  std::string describe(int process) const;
};

struct Rendezvous {
  /// In order of processes.
  std::vector<ProcessInfo> processes;
  /// Of the leader: one to each process (its own is closed); of the others: one, to
  /// the leader.
  std::vector<Link> links;
};

/// Waits for all. `comm.unreachable` where a connection can't be made within half a
/// minute, `comm.transport_failed` where the transport fails.
StatusOr<Rendezvous> meetAll(const CleaveTransport &transport);

} // namespace cleave::rt

// Ranks as threads of one process: the default transport. Collectives work
// directly on the ranks' buffers, channels copy once where the receiver waits
// already and twice where it does not, reductions run in rank order, and threads
// that wait sleep after a brief spin (at once where ranks outnumber cores).
#pragma once

#include "runtime/Comm/Communicator.h"

#include <chrono>
#include <memory>
#include <optional>

namespace cleave::rt {

struct LocalWorldOptions {
  /// How long a waiting rank spins. Absent: 2 µs if every thread of every rank
  /// has a core, else none.
  std::optional<std::chrono::nanoseconds> spin;
  unsigned threadsPerRank = 1;
};

class LocalWorld : public HostedRanks {
public:
  /// `comm.bad_group` and `comm.bad_channel` where `plan` is not what it should be.
  static StatusOr<std::unique_ptr<LocalWorld>> create(const WorldPlan &plan,
                                                      LocalWorldOptions options = {});

  virtual int size() const = 0;
};

} // namespace cleave::rt

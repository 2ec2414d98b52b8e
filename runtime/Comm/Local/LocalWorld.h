// Ranks as threads of one process: the default transport. Collectives work
// directly on the ranks' buffers, reductions run in rank order, and threads
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
  /// `groups` are ordered lists of ranks, each rank at most once in a list;
  /// the list of all ranks is always there. `comm.bad_group` otherwise.
  static StatusOr<std::unique_ptr<LocalWorld>>
  create(int ranks, const std::vector<std::vector<int>> &groups, LocalWorldOptions options = {});

  virtual int size() const = 0;
};

} // namespace cleave::rt

// Ranks as threads of one process: the default transport. Collectives work
// directly on the ranks' buffers, reductions run in rank order, and threads
// that wait sleep after a brief spin (at once where ranks outnumber cores).
#pragma once

#include "runtime/Base/FunctionRef.h"
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

class LocalWorld {
public:
  /// `groups` are ordered lists of ranks, each rank at most once in a list;
  /// the list of all ranks is always there. `comm.bad_group` otherwise.
  static StatusOr<std::unique_ptr<LocalWorld>>
  create(int ranks, const std::vector<std::vector<int>> &groups, LocalWorldOptions options = {});
  virtual ~LocalWorld() = default;

  virtual int size() const = 0;
  /// Runs `body` once per rank, rank 0 on the calling thread, and returns the
  /// first error of the run when all have ended. A body's error or exception
  /// ends all; a body that ends early while another rank waits for it in a
  /// collective is `comm.rank_left`. May be called once.
  virtual Status run(FunctionRef<Status(World &)> body) = 0;
  /// The view of one rank, for traffic counts after the run.
  virtual World &rank(int rank) = 0;
};

} // namespace cleave::rt

// The shared half of a group of ranks that are threads of one process. Each
// rank shows the others where its buffers lie, all do their part of the work
// directly on each other's memory, and all leave together:
//
//   enter (breakable)  →  everyone's call is visible, nobody's buffer changes
//   work               →  each rank writes only what is its part
//   leave (never broken) → buffers belong to their owners again
//
// A failure elsewhere can stop ranks only at `enter`, so no rank frees a buffer
// that another still reads. Internal to Comm/Local.
#pragma once

#include "runtime/Base/Waiting.h"
#include "runtime/Comm/Communicator.h"

#include <optional>

namespace cleave::rt {

/// One rank's arguments of the collective in progress.
struct LocalCall {
  CollectiveKind collective = CollectiveKind::Barrier;
  ReduceKind reduction = ReduceKind::Sum;
  const float *send = nullptr;
  float *receive = nullptr;
  /// Floats of the whole message, as TrafficCount counts them.
  size_t count = 0;
  int root = 0;
};

class LocalGroup {
public:
  LocalGroup(std::vector<int> members, std::chrono::nanoseconds spin);

  const std::vector<int> &members() const { return memberRanks; }

  enum class Outcome { Done, Broken };
  /// Carries out one collective for group rank `self`. `Broken` if the world
  /// ended before all members came. `mismatch` is set, on every member alike,
  /// if their calls don't belong together; nothing is then written.
  Outcome perform(int self, const LocalCall &call, std::optional<Error> &mismatch);

  /// Wakes all members waiting for others, and makes later calls fail.
  void breakUp() { enter.breakUp(); }

private:
  std::optional<Error> compareCalls() const;
  void work(int self) const;
  void allReduce(int self) const;
  void reduceScatter(int self) const;

  const std::vector<int> memberRanks;
  std::vector<LocalCall> calls;
  Barrier enter;
  Barrier leave;
};

} // namespace cleave::rt

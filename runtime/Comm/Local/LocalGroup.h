// The shared half of a group of ranks that are threads of one process. Each
// rank shows the others where its buffers lie, all do their part of the work
// directly on each other's memory, and all leave together:
//
//   enter (breakable)  →  everyone's call is visible, nobody's buffer changes
//   work               →  each rank writes only what is its part
//   leave (never broken) → buffers belong to their owners again
//
// A failure elsewhere can stop ranks only at `enter`, so no rank frees a buffer
// that another still reads. A group of which other processes hold a part derives
// from this one: its work also waits for them, and then a failure must make that
// work return. Internal to Comm.
#pragma once

#include "runtime/Base/FunctionRef.h"
#include "runtime/Base/Waiting.h"
#include "runtime/Comm/Communicator.h"

#include <span>

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

/// What one position of a reduction adds: floats of one rank or process.
using FloatSource = FunctionRef<const float *(size_t index)>;

/// accumulator[0 … count) = the sources 0 … sources - 1 reduced in that order; at
/// least one source. The accumulator may be the first source.
void reduceInOrder(float *accumulator, size_t count, size_t sources, ReduceKind kind,
                   FloatSource source);

class LocalGroup {
public:
  LocalGroup(std::vector<int> members, std::chrono::nanoseconds spin);
  virtual ~LocalGroup() = default;

  /// All ranks of the group, and those of them that are threads of this process.
  const std::vector<int> &members() const { return memberRanks; }
  std::span<const int> membersHere() const {
    return std::span(memberRanks).subspan(firstHere, calls.size());
  }

  enum class Outcome { Done, Broken };
  /// Carries out one collective for member `self` of those here. `Broken` if the
  /// world ended before all members came. `failure` is set, on every member
  /// alike, if their calls don't belong together (nothing is then written), and
  /// on a member whose work failed.
  Outcome perform(size_t self, const LocalCall &call, Status &failure);

  /// Wakes all members waiting for others, and makes later calls fail.
  void breakUp() { enter.breakUp(); }

protected:
  /// A group whose members here are `here` ones from position `firstHere`.
  LocalGroup(std::vector<int> members, size_t firstHere, size_t here,
             std::chrono::nanoseconds spin);
  /// The part of member `self`; called on all members here at the same time.
  virtual Status work(size_t self);

  /// Of the members here, in the order of the group.
  std::vector<LocalCall> calls;
  /// Position in the group of the first member here.
  const size_t firstHere;

private:
  Status compareCalls() const;
  void allReduce(size_t self) const;
  void reduceScatter(size_t self) const;

  const std::vector<int> memberRanks;
  Barrier enter;
  Barrier leave;
};

} // namespace cleave::rt

// A rank's block of a parameter as runs: which stretches of the global tensor
// (and so of a file) lie where in the rank's padded memory. Everything that
// fills, saves or exports state walks these.
#pragma once

#include "runtime/Checkpoint/Box.h"
#include "runtime/Schema/Program.h"

#include <cstdint>
#include <vector>

namespace cleave::rt {

/// `count` elements from `global` (row-major index in the whole tensor) at
/// `local` (index in the rank's padded block).
struct StateRun {
  int64_t global;
  int64_t local;
  int64_t count;
};

/// The real elements of a slot that `rank` holds, in global coordinates.
Box boxOf(const Program &program, const StateEntry &entry, Slot slot, int64_t rank);

/// Row-major strides of the rank's padded block of a slot.
std::vector<int64_t> localStrides(const Program &program, const StateEntry &entry, Slot slot);

/// Runs of the value's box in ascending order, cut to at most `longest` elements.
std::vector<StateRun> runsOf(const Program &program, const StateEntry &entry, int64_t rank,
                             int64_t longest);

} // namespace cleave::rt

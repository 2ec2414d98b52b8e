// Looks at what products and kernels yield while a step is run again, to find the first
// number that is infinite or none at all. Exchanges and copies only pass such numbers on.
#pragma once

#include "runtime/Exec/RankMemory.h"

#include <optional>

namespace cleave::rt {

/// A command whose result is not finite.
struct BadResult {
  /// Index of its entry, and of the command there.
  size_t entry = 0, command = 0;
  /// How many commands were watched before it.
  int64_t order = 0;
};

/// Whether the result of `command` holds a number that is not finite: of a product an infinity
/// or a NaN, of a kernel the same but minus infinity, with which kernels mask. Other commands never
/// do.
bool hasBadResult(const Command &command, const RankMemory &memory);

} // namespace cleave::rt

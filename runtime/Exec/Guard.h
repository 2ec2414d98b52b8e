// Looks at what products yield while a step is run again, to find the first number that
// is infinite or none at all. Products are everywhere in a layer and pass on what they
// are given, so the first bad one stands at most some operators behind the fault.
#pragma once

#include "runtime/Exec/RankMemory.h"

#include <optional>

namespace cleave::rt {

/// A product whose result is not finite.
struct BadProduct {
  /// Index of its entry, and of the command there.
  size_t entry = 0, command = 0;
  /// How many commands were watched before it.
  int64_t order = 0;
};

/// Whether the result of `command` holds a number that is not finite; commands that are
/// no products never do.
bool hasBadResult(const Command &command, const RankMemory &memory);

} // namespace cleave::rt

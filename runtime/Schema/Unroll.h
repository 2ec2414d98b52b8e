// What an entry runs: its commands with repeats written out.
#pragma once

#include "runtime/Schema/Program.h"

#include <vector>

namespace cleave::rt {

/// `command`, of the body of `repeat`, as iteration `i` runs it: regions moved
/// (and with stride 0), label completed. An offset that would leave int64 is the
/// nearest one that fits, which no segment reaches.
Command inIteration(const RepeatCommand &repeat, const Command &command, int64_t i);

/// The commands of a valid entry in the order in which they run, without repeats.
std::vector<Command> unroll(const std::vector<Command> &commands);

/// Each entry of a valid program unrolled.
Entries unroll(const Entries &entries);

/// Calls `visit(command, times)` for every command that isn't a repeat, those of
/// bodies as they stand there, with how often a run of the list runs it.
template <typename Visit> void forEachCommand(const std::vector<Command> &commands, Visit &&visit) {
  for (const Command &command : commands) {
    if (const auto *repeat = std::get_if<RepeatCommand>(&command.what)) {
      for (const Command &repeated : repeat->body)
        visit(repeated, repeat->count);
    } else {
      visit(command, int64_t(1));
    }
  }
}

} // namespace cleave::rt

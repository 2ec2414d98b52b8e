// What an entry runs: its commands with repeats written out.
#pragma once

#include "runtime/Schema/Program.h"

#include <span>
#include <vector>

namespace cleave::rt {

/// `command`, of the body of `repeat`, as iteration `i` runs it: regions moved
/// (and with stride 0), label completed. An offset that would leave int64 is the
/// nearest one that fits, which no segment reaches.
Command inIteration(const RepeatCommand &repeat, const Command &command, int64_t i);

/// `command`, which is no repeat, with every region moved by the bytes that stand
/// for its segment.
Command shifted(const Command &command, std::span<const int64_t> bytesOfSegment);

/// The commands of a valid entry in the order in which they run, without repeats.
std::vector<Command> unroll(const std::vector<Command> &commands);

/// Commands of each entry of a program, by `Program::entryIndex`.
using EntryLists = std::vector<std::vector<Command>>;

/// Each entry of a valid program unrolled.
EntryLists unrollEntries(const Program &program);

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

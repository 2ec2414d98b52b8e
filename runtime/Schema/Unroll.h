// What an entry runs: its commands with repeats written out.
#pragma once

#include "runtime/Schema/Program.h"

#include <algorithm>
#include <span>
#include <vector>

namespace cleave::rt {

/// `command`, of the body of `repeat`, as iteration `i` runs it: regions moved
/// (and with stride 0), label completed. An offset that would leave int64 is the
/// nearest one that fits, which no segment reaches. Numbers of buckets stay.
Command inIteration(const RepeatCommand &repeat, const Command &command, int64_t i);

/// `command`, which is no repeat, with every region moved by the bytes that stand
/// for its segment.
Command shifted(const Command &command, std::span<const int64_t> bytesOfSegment);

/// Calls `visit(command, i)` for each command of a repeat's body and each iteration i, in
/// the order in which they run.
template <typename Visit> void forEachTurn(const RepeatCommand &repeat, Visit &&visit) {
  int64_t earliest = 0, latest = 0;
  for (const Command &command : repeat.body) {
    earliest = std::max(earliest, command.ahead);
    latest = std::min(latest, command.ahead);
  }
  for (int64_t turn = -earliest; turn < repeat.count - latest; ++turn)
    for (const Command &command : repeat.body)
      if (const int64_t i = turn + command.ahead; i >= 0 && i < repeat.count)
        visit(command, i);
}

/// The commands of a valid entry in the order in which they run, without repeats. Buckets
/// are numbered anew, from 0 in the order in which they come.
std::vector<Command> unroll(const std::vector<Command> &commands);

/// Commands of each entry of a program, by `Program::entryIndex`.
using EntryLists = std::vector<std::vector<Command>>;

/// Each entry of a valid program unrolled.
EntryLists unrollEntries(const Program &program);

/// Calls `visit(command, times)` for every command that is neither a repeat nor a bucket,
/// those of bodies as they stand there, with how often a run of the list runs it.
template <typename Visit>
void forEachCommand(const std::vector<Command> &commands, Visit &&visit, int64_t times = 1) {
  for (const Command &command : commands) {
    if (const auto *repeat = std::get_if<RepeatCommand>(&command.what))
      forEachCommand(repeat->body, visit, times * repeat->count);
    else if (const auto *bucket = std::get_if<BesideCommand>(&command.what))
      forEachCommand(bucket->exchanges, visit, times);
    else
      visit(command, times);
  }
}

} // namespace cleave::rt

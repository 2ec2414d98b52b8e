// What each command of a rank took: filled by the executor when asked to, read
// by reports. Times are wall times of the rank's own thread, waits included.
#pragma once

#include "runtime/Schema/Unroll.h"

#include <cstdint>
#include <vector>

namespace cleave::rt {

struct CommandTime {
  int64_t calls = 0;
  double seconds = 0;
};

/// One time a command, in the order of Executor::commands.
using Profile = std::vector<std::vector<CommandTime>>;

/// What all calls of one kind of command took together.
struct ProfileLine {
  /// The command's kind, or for kernels the symbol: "matmul", "matmul of stage 3".
  std::string name;
  int64_t calls = 0;
  double seconds = 0;
  /// Of all calls together, as the program states them.
  double bytes = 0;
  double flops = 0;
};

/// Sums by kind (kernels by symbol), those of a pipeline's stages apart, the slowest
/// first. `commands` are those of `program` whose times `profile` has.
std::vector<ProfileLine> summarise(const Program &program, const EntryLists &commands,
                                   const Profile &profile);

} // namespace cleave::rt

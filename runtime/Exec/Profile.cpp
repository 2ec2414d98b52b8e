// Summing command times.
#include "runtime/Exec/Profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace cleave::rt {

std::vector<ProfileLine> summarise(const Program &program, const EntryLists &commands,
                                   const Profile &profile) {
  std::map<std::string, ProfileLine> byName;
  for (size_t e = 0; e < profile.size(); ++e)
    for (size_t i = 0; i < profile[e].size(); ++i) {
      const Command &command = commands[e][i];
      const CommandTime &time = profile[e][i];
      const auto *kernel = std::get_if<KernelCommand>(&command.what);
      std::string name = kernel ? kernel->symbol : nameOf(command);
      if (const Stage *stage = program.stageOfEntry(e))
        name += fmt::format(" of stage {}", stage->number);
      ProfileLine &line = byName[std::move(name)];
      line.calls += time.calls;
      line.seconds += time.seconds;
      line.bytes += command.bytes * static_cast<double>(time.calls);
      line.flops += command.flops * static_cast<double>(time.calls);
    }
  std::vector<ProfileLine> lines;
  for (auto &[name, line] : byName) {
    line.name = name;
    lines.push_back(line);
  }
  std::ranges::sort(lines, [](const ProfileLine &a, const ProfileLine &b) {
    return a.seconds != b.seconds ? a.seconds > b.seconds : a.name < b.name;
  });
  return lines;
}

} // namespace cleave::rt

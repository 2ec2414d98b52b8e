// Groups, and whether ranks that run different programs come to their collectives
// in one order. That is found by playing the lists of each entry out: a collective
// happens when all programs with members in its group stand before it.
#include "runtime/Schema/Unroll.h"
#include "runtime/Schema/ValidateCommands.h"

#include <fmt/format.h>

#include <algorithm>

namespace cleave::rt {
namespace {

Error broken(std::string message) { return brokenImage("image.group", std::move(message)); }

/// The rank of the program whose other coordinates are 0.
int64_t rankOf(const Program &program) {
  if (!program.pipeline)
    return 0;
  return program.mesh.groupOf(0, program.pipeline->axes)[program.pipeline->index];
}

Status checkMembers(const Program &program, const Group &group, const std::string &owner) {
  const int64_t all = program.mesh.sizeOf(group.axes);
  int64_t before = -1;
  for (int64_t member : group.members) {
    if (member <= before || member >= all)
      return broken(fmt::format("{} has member {}; members are 0 to {} in ascending order", owner,
                                member, all - 1));
    before = member;
  }
  return {};
}

/// Ranks of one program do the same, so of each program all take part or none.
Status checkWhole(const Program &program, const Group &group, const std::string &owner) {
  if (group.members.empty())
    return {};
  int64_t each = program.mesh.sizeOf(group.axes);
  if (program.pipeline)
    for (int32_t axis : program.pipeline->axes)
      if (std::ranges::find(group.axes, axis) != group.axes.end())
        each /= program.mesh.axes[axis].size;
  const std::vector<int64_t> programs = programsIn(program, group);
  const int64_t own = program.pipeline ? program.pipeline->index : 0;
  if (!std::ranges::binary_search(programs, own))
    return broken(fmt::format("{} lacks ranks of its own program", owner));
  if (group.size(program.mesh) != each * static_cast<int64_t>(programs.size()))
    return broken(
        fmt::format("{} has some ranks of a program and lacks others, which do the same", owner));
  return {};
}

/// All in which members of a collective must be alike.
struct AgreementText {
  const Command &command;

  template <typename T> std::string operator()(const T &collective) const {
    std::string text = nameOf(command);
    if constexpr (requires { collective.kind; })
      text += collective.kind == ReductionKind::Max ? " (max)" : "";
    if constexpr (requires { collective.type; })
      text += fmt::format(" of {}", nameOf(collective.type));
    if constexpr (requires { collective.source.bytes; })
      text += fmt::format(", {} to {} bytes", collective.source.bytes, collective.target.bytes);
    return text;
  }
};

/// A collective among several programs, as its members must agree on it.
struct Meeting {
  std::vector<int64_t> ranks;
  std::vector<int64_t> programs;
  std::string what;
  std::string label;
};

class EntryPlayer {
public:
  EntryPlayer(const Image &image, EntryKind entry) : entry(entry) {
    for (const Program &program : image.programs) {
      lists.emplace_back();
      for (const Command &command : program.entry(entry)) {
        const auto *repeat = std::get_if<RepeatCommand>(&command.what);
        if (!repeat)
          add(program, command, lists.back());
        if (repeat)
          forEachTurn(*repeat, [&](const Command &repeated, int64_t i) {
            if (groupOf(repeated))
              add(program, inIteration(*repeat, repeated, i), lists.back());
          });
      }
    }
    next.resize(lists.size());
  }

  Status run() {
    std::vector<size_t> open;
    for (size_t i = 0; i < lists.size(); ++i)
      open.push_back(i);
    while (!open.empty()) {
      const size_t program = open.back();
      open.pop_back();
      if (!advance(program))
        continue;
      // Whoever took part may go on too.
      for (int64_t other : lists[program][next[program] - 1].programs)
        open.push_back(static_cast<size_t>(other));
    }
    for (size_t i = 0; i < lists.size(); ++i)
      if (next[i] < lists[i].size())
        return stuck(i);
    return {};
  }

private:
  static void add(const Program &program, const Command &command, std::vector<Meeting> &list) {
    const auto group = groupOf(command);
    if (!group)
      return;
    std::vector<int64_t> programs = programsIn(program, program.groups[*group]);
    if (programs.size() > 1)
      list.push_back({program.groups[*group].ranksOf(program.mesh, rankOf(program)),
                      std::move(programs), std::visit(AgreementText{command}, command.what),
                      command.label});
  }

  const Meeting *nextOf(size_t program) const {
    return next[program] < lists[program].size() ? &lists[program][next[program]] : nullptr;
  }

  bool advance(size_t program) {
    const Meeting *mine = nextOf(program);
    if (!mine)
      return false;
    for (int64_t other : mine->programs) {
      const Meeting *theirs = nextOf(static_cast<size_t>(other));
      if (!theirs || theirs->ranks != mine->ranks || theirs->what != mine->what)
        return false;
    }
    for (int64_t other : mine->programs)
      ++next[static_cast<size_t>(other)];
    return true;
  }

  Status stuck(size_t program) const {
    const Meeting &waits = *nextOf(program);
    std::string others;
    for (int64_t other : waits.programs)
      if (other != static_cast<int64_t>(program)) {
        const Meeting *theirs = nextOf(static_cast<size_t>(other));
        others += fmt::format("; index {} {}", other,
                              theirs ? "is at " + describe(*theirs) : "is at its end");
      }
    return broken(fmt::format("in {} index {} of the pipeline waits for ever in {}{}",
                              nameOf(entry), program, describe(waits), others));
  }

  static std::string describe(const Meeting &meeting) {
    return fmt::format("{}{}{} among {} ranks", meeting.what, meeting.label.empty() ? "" : " of ",
                       meeting.label, meeting.ranks.size());
  }

  const EntryKind entry;
  std::vector<std::vector<Meeting>> lists;
  std::vector<size_t> next;
};

/// When a stage's entry runs is up to the list of actions, which others don't share.
Status checkStages(const Program &program) {
  for (size_t entry = entryCount; entry < program.entryLists(); ++entry) {
    Status status;
    forEachCommand(program.entryList(entry), [&](const Command &command, int64_t) {
      const auto group = groupOf(command);
      if (status.ok() && group && programsIn(program, program.groups[*group]).size() > 1)
        status = broken(fmt::format("{} has {}{}{} in a group of several programs",
                                    program.entryName(entry), nameOf(command),
                                    command.label.empty() ? "" : " of ", command.label));
    });
    CLEAVE_RT_RETURN_IF_ERROR(status);
  }
  return {};
}

} // namespace

std::vector<int64_t> programsIn(const Program &program, const Group &group) {
  if (!program.pipeline)
    return {0};
  const AxisList &axes = program.pipeline->axes;
  if (std::ranges::none_of(axes, [&](int32_t axis) {
        return std::ranges::find(group.axes, axis) != group.axes.end();
      }))
    return {program.pipeline->index};
  std::set<int64_t> programs;
  for (int64_t rank : group.ranksOf(program.mesh, rankOf(program)))
    programs.insert(program.mesh.indexOf(rank, axes));
  return {programs.begin(), programs.end()};
}

Status validateGroups(const Program &program) {
  for (size_t i = 0; i < program.groups.size(); ++i) {
    const Group &group = program.groups[i];
    const std::string owner = fmt::format("group {}", i);
    std::set<int32_t> used;
    CLEAVE_RT_RETURN_IF_ERROR(checkAxes(program, group.axes, used, "image.group", owner));
    CLEAVE_RT_RETURN_IF_ERROR(checkMembers(program, group, owner));
    CLEAVE_RT_RETURN_IF_ERROR(checkWhole(program, group, owner));
    if (group.beside && programsIn(program, group).size() > 1)
      return broken(fmt::format("{} is for exchanges beside, but of several programs", owner));
  }
  return {};
}

Status validateCollectiveOrder(const Image &image) {
  if (image.programs.size() == 1)
    return {};
  for (const Program &program : image.programs)
    CLEAVE_RT_RETURN_IF_ERROR(checkStages(program));
  for (size_t entry = 0; entry < entryCount; ++entry)
    CLEAVE_RT_RETURN_IF_ERROR(EntryPlayer(image, static_cast<EntryKind>(entry)).run());
  return {};
}

} // namespace cleave::rt

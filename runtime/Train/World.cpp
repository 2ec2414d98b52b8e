// Host, world and threads.
#include "runtime/Train/World.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace cleave::rt {
namespace {

constexpr std::string_view levels[] = {"", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

/// How a launcher tells a process the number of processes it started.
struct Launcher {
  const char *name;
  const char *variable;
  /// Must be there too, where the first one alone says nothing.
  const char *also;
};
constexpr Launcher launchers[] = {{"mpirun", "OMPI_COMM_WORLD_SIZE", nullptr},
                                  {"mpiexec", "PMI_SIZE", nullptr},
                                  {"torchrun", "WORLD_SIZE", "RANK"},
                                  {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID"}};

std::optional<int64_t> numberOf(const char *text) {
  if (!text)
    return std::nullopt;
  const std::string_view view = text;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size())
    return std::nullopt;
  return value;
}

std::string meshText(const Mesh &mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis &axis : mesh.axes)
    axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  return axes.empty() ? "one rank" : fmt::format("{}", fmt::join(axes, " × "));
}

Error mismatch(const Program &program, const std::string &who, int64_t ranks) {
  const int64_t world = program.mesh.world();
  return userError("runtime.world_mismatch",
                   fmt::format("{} asks for {} rank{}, the program was compiled for {} ({})", who,
                               ranks, ranks == 1 ? "" : "s", world, meshText(program.mesh)))
      .withGiven(fmt::format("{}", ranks))
      .withRule("a program runs on exactly the ranks of its plan")
      .suggest(fmt::format("--ranks {}", world))
      .suggest(fmt::format("compile with --cluster local:{}", ranks));
}

} // namespace

Status checkHost(const Program &program, const MachineInfo &machine) {
  const auto *needed = std::ranges::find(levels, program.profile);
  if (needed - levels <= machine.x86Level)
    return {};
  const bool avx2 = machine.x86Level >= 3;
  return missingError("runtime.host_unsupported",
                      fmt::format("this processor lacks instructions of {}, which the program was "
                                  "compiled for",
                                  program.profile))
      .withGiven(fmt::format("{}{}", levels[machine.x86Level],
                             machine.processor.empty() ? "" : " (" + machine.processor + ")"))
      .withRule("the kernels of --profile avx512 need x86-64-v4, those of avx2 x86-64-v3")
      .suggest(avx2 ? "compile on this machine, or with --profile avx2"
                    : "run it on a machine that has AVX2");
}

Status checkWorld(const Program &program, const TrainFlags &flags, Environment environment) {
  const int64_t world = program.mesh.world();
  if (flags.ranks && *flags.ranks != world)
    return mismatch(program, "--ranks", *flags.ranks);
  for (const Launcher &launcher : launchers) {
    const auto processes = numberOf(environment(launcher.variable));
    if (!processes || *processes <= 1 || (launcher.also && !environment(launcher.also)))
      continue;
    if (*processes != world)
      return mismatch(program, fmt::format("{} ({})", launcher.name, launcher.variable),
                      *processes);
    return missingError("runtime.transport_missing",
                        fmt::format("{} started {} processes, but this binary runs its ranks as "
                                    "threads of one process",
                                    launcher.name, *processes))
        .suggest(fmt::format("start it once, without {}: it has {} ranks by itself", launcher.name,
                             world));
  }
  return {};
}

unsigned threadsPerRank(const Program &program, const TrainFlags &flags, unsigned usableCores) {
  const auto share = static_cast<unsigned>(usableCores / program.mesh.world());
  return flags.threads.value_or(std::max(1u, share));
}

} // namespace cleave::rt

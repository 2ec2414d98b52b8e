// Host, world and threads.
#include "runtime/Train/World.h"

#include "runtime/Train/PipelineRunner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace cleave::rt {
namespace {

constexpr std::string_view levels[] = {"", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

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

Error indivisible(const Program &program, const Launch &launch) {
  const int64_t world = program.mesh.world();
  return userError("runtime.world_mismatch",
                   fmt::format("{} started {} processes, the program was compiled for {} rank{} "
                               "({})",
                               launch.launcher, launch.processes, world, world == 1 ? "" : "s",
                               meshText(program.mesh)))
      .withGiven(fmt::format("{} = {}", launch.variable, launch.processes))
      .withRule("each process holds as many of the program's ranks as every other")
      .suggest(fmt::format("{} processes: one for each rank", world))
      .suggest(fmt::format("compile for {} ranks", launch.processes));
}

} // namespace

Status checkHost(const Program &program, const MachineInfo &machine) {
  const std::string_view level =
      std::string_view(program.profile).substr(0, program.profile.find('+'));
  const bool needsBf16 = program.profile.ends_with("+avx512bf16");
  if (std::ranges::find(levels, level) - levels <= machine.x86Level &&
      (machine.avx512Bf16 || !needsBf16))
    return {};
  const char *works = machine.x86Level >= 4   ? "compile on this machine, or with --profile avx512"
                      : machine.x86Level == 3 ? "compile on this machine, or with --profile avx2"
                                              : "run it on a machine that has AVX2";
  return missingError("runtime.host_unsupported",
                      fmt::format("this processor lacks instructions of {}, which the program was "
                                  "compiled for",
                                  program.profile))
      .withGiven(fmt::format("{}{}", levels[machine.x86Level],
                             machine.processor.empty() ? "" : " (" + machine.processor + ")"))
      .withRule("the kernels of --profile avx512-bf16 need x86-64-v4 and AVX512_BF16, those of "
                "avx512 x86-64-v4, those of avx2 x86-64-v3")
      .suggest(works);
}

Status checkWorld(const Program &program, const TrainFlags &flags,
                  const std::optional<Launch> &launch) {
  const int64_t world = program.mesh.world();
  if (flags.ranks && *flags.ranks != world)
    return mismatch(program, "--ranks", *flags.ranks);
  if (launch && world % launch->processes != 0)
    return indivisible(program, *launch);
  return {};
}

WorldPlan planWorld(const Image &image) {
  WorldPlan plan;
  plan.ranks = static_cast<int>(image.first().mesh.world());
  std::set<std::pair<bool, std::vector<int>>> known;
  for (const Program &program : image.programs)
    for (const Group &group : program.groups)
      for (int rank = 0; rank < plan.ranks; ++rank) {
        if (&image.of(rank) != &program)
          continue;
        const std::vector<int64_t> members = group.ranksOf(program.mesh, rank);
        std::vector<int> ranks(members.begin(), members.end());
        if (known.insert({group.beside, ranks}).second)
          (group.beside ? plan.groupsBeside : plan.groups).push_back(std::move(ranks));
      }
  plan.channels = channelsOf(image);
  return plan;
}

unsigned threadsPerRank(const TrainFlags &flags, unsigned usableCores, int64_t ranksOnThem) {
  const auto share = static_cast<unsigned>(usableCores / ranksOnThem);
  return flags.threads.value_or(std::max(1u, share));
}

} // namespace cleave::rt

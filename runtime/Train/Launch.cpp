// Variables of launchers, and the way from them to a team.
#include "runtime/Train/Launch.h"

#include "runtime/Comm/MPI/LoadPlugin.h"
#include "runtime/Comm/TCP/Mesh.h"
#include "runtime/Train/MeetingPlace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include <sys/resource.h>

namespace cleave::rt {
namespace {

/// How a launcher tells a process the number of processes it started.
struct Launcher {
  const char *name;
  const char *size, *rank, *localRank;
  /// Must be there too, where the others alone say nothing.
  const char *also;
  /// One of these is there if MPI can start; the first null: always, "": never.
  const char *mpi[3];
};

// Inner launchers first: mpirun and torchrun may run under srun, and torchrun under
// mpirun. Of scripts that set RANK for PyTorch under mpirun, mpirun counts.
constexpr Launcher launchers[] = {
    {"torchrun", "WORLD_SIZE", "RANK", "LOCAL_RANK", "TORCHELASTIC_RUN_ID", {""}},
    {"mpirun",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     nullptr,
     {nullptr}},
    {"mpiexec", "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID", nullptr, {nullptr}},
    {"the launcher", "WORLD_SIZE", "RANK", "LOCAL_RANK", "RANK", {""}},
    {"srun",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_PROCID",
     "SLURM_LOCALID",
     "SLURM_STEP_ID",
     {"PMIX_RANK", "PMI_FD", "PMI_RANK"}},
};

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

bool bringsMpi(const Launcher &launcher, Environment environment) {
  if (!launcher.mpi[0])
    return true;
  for (const char *variable : launcher.mpi)
    if (variable && *variable && environment(variable))
      return true;
  return false;
}

Error withoutMpi(const Launch &launch) {
  Error error = missingError("runtime.transport_missing",
                             fmt::format("{} started {} processes, but gives them no MPI to talk "
                                         "with",
                                         launch.launcher, launch.processes))
                    .withGiven(fmt::format("{} = {}", launch.variable, launch.processes))
                    .withRule("--transport mpi needs a launcher of an MPI");
  if (launch.launcher == "srun")
    error = std::move(error).suggest("srun --mpi=pmix");
  return std::move(error)
      .suggest("--transport tcp")
      .suggest(fmt::format("mpirun -n {}", launch.processes));
}

StatusOr<std::unique_ptr<ProcessTeam>> joinOverMpi(const Launch &launch, std::string_view plugin,
                                                   Environment environment, TeamOptions options) {
  if (!launch.bringsMpi)
    return withoutMpi(launch);
  CLEAVE_RT_ASSIGN_OR_RETURN(const CleaveTransport transport,
                             openTransport(environment("CLEAVE_MPI_PLUGIN"), plugin));
  if (transport.processes != launch.processes)
    return missingError("runtime.transport_missing",
                        fmt::format("{} started {} processes, but {} knows of {}", launch.launcher,
                                    launch.processes, transport.library, transport.processes))
        .withGiven(fmt::format("{} = {}", launch.variable, launch.processes))
        .withRule("the launcher belongs to the MPI of the plugin")
        .suggest(fmt::format("the mpirun of {}", transport.library))
        .suggest("CLEAVE_MPI_PLUGIN=FILE with a plugin for the launcher's MPI, see "
                 "docs/Formats.md")
        .suggest("--transport tcp, under Slurm or where MASTER_ADDR and MASTER_PORT are set");
  return ProcessTeam::connect(transport, std::move(options));
}

StatusOr<std::unique_ptr<ProcessTeam>> joinOverTcp(const Launch &launch, const TrainFlags &flags,
                                                   Environment environment, TeamOptions options,
                                                   std::function<bool()> stopRequested) {
  CLEAVE_RT_ASSIGN_OR_RETURN(tcp::MeetingPlace place, meetingPlaceOf(launch, environment));
  place.isStopped = std::move(stopRequested);
  place.limit = std::chrono::seconds(flags.joinTimeout);
  CLEAVE_RT_ASSIGN_OR_RETURN(auto contacts, tcp::meet(place));
  const std::shared_ptr<tcp::Mesh> mesh = tcp::Mesh::create(place.process, std::move(contacts));
  return ProcessTeam::connect(mesh->table(), std::move(options), mesh);
}

/// Connections are files: one to every process for messages, and one for control. The limit of
/// shells is often below what the system would allow.
Status allowConnections(const Launch &launch) {
  constexpr rlim_t others = 64;
  const rlim_t needed = 2 * static_cast<rlim_t>(launch.processes) + others;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
    return {};
  if (limit.rlim_max >= needed) {
    limit.rlim_cur = needed;
    if (::setrlimit(RLIMIT_NOFILE, &limit) == 0)
      return {};
  }
  return missingError("runtime.too_few_files",
                      fmt::format("{} processes take more open files than this one may have",
                                  launch.processes))
      .withGiven(fmt::format("{} = {}, ulimit -Hn = {}", launch.variable, launch.processes,
                             limit.rlim_max))
      .withRule("a process keeps two connections to every other, and some files")
      .suggest(fmt::format("ulimit -n {}, on every host", needed))
      .suggest("fewer processes with more ranks each");
}

} // namespace

std::optional<Launch> detectLaunch(Environment environment) {
  for (const Launcher &launcher : launchers) {
    const auto processes = numberOf(environment(launcher.size));
    if (!processes || *processes <= 1 || (launcher.also && !environment(launcher.also)))
      continue;
    Launch launch;
    launch.launcher = launcher.name;
    launch.variable = launcher.size;
    launch.numberVariable = launcher.rank;
    launch.processes = *processes;
    launch.process = numberOf(environment(launcher.rank)).value_or(0);
    // Somebody has to speak, whatever the variable says.
    launch.localProcess =
        std::max<int64_t>(0, numberOf(environment(launcher.localRank)).value_or(0));
    launch.bringsMpi = bringsMpi(launcher, environment);
    return launch;
  }
  return std::nullopt;
}

Status checkAlone(Environment environment) {
  for (const Launcher &launcher : launchers) {
    const char *rank = environment(launcher.rank);
    if (!rank || !*rank || (launcher.also && !environment(launcher.also)))
      continue;
    const char *size = environment(launcher.size);
    const auto processes = numberOf(size), process = numberOf(rank);
    // One process of one; or a number without a count, as scripts set it for their own use.
    const bool isFirst = process && *process == 0;
    if (isFirst && (!size || !*size || (processes && *processes == 1)))
      continue;
    return userError("runtime.bad_launch",
                     fmt::format("{} and {} do not say which one of how many processes this is",
                                 launcher.rank, launcher.size))
        .withGiven(fmt::format("{} = {}, {}", launcher.rank, rank,
                               size && *size ? fmt::format("{} = {}", launcher.size, size)
                                             : fmt::format("{} is not set", launcher.size)))
        .withRule(fmt::format("{} is a whole number from 1, and {} one from 0 below it",
                              launcher.size, launcher.rank))
        .suggest(fmt::format("{}=N, the number of processes that were started", launcher.size))
        .suggest(fmt::format("env -u {} -u {} to run in this process alone", launcher.rank,
                             launcher.size));
  }
  return {};
}

TransportKind transportOf(const Launch &launch, const TrainFlags &flags) {
  return flags.transport.value_or(launch.bringsMpi ? TransportKind::MPI : TransportKind::TCP);
}

StatusOr<std::unique_ptr<ProcessTeam>> joinTeam(const Launch &launch, const TrainFlags &flags,
                                                std::string_view plugin, Environment environment,
                                                TeamOptions options,
                                                std::function<bool()> stopRequested) {
  if (transportOf(launch, flags) == TransportKind::TCP)
    CLEAVE_RT_RETURN_IF_ERROR(allowConnections(launch));
  return transportOf(launch, flags) == TransportKind::MPI
             ? joinOverMpi(launch, plugin, environment, std::move(options))
             : joinOverTcp(launch, flags, environment, std::move(options),
                           std::move(stopRequested));
}

} // namespace cleave::rt

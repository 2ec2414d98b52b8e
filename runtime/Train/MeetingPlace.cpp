// From variables to a place.
#include "runtime/Train/MeetingPlace.h"

#include "runtime/Train/SlurmHosts.h"

#include <fmt/format.h>

#include <charconv>

namespace cleave::rt {
namespace {

/// Behind the port of torchrun's agent.
constexpr uint16_t portsBehindAgent = 4;

/// Ports of Slurm jobs: as many from here on, below those that systems give out.
constexpr uint64_t firstSlurmPort = 15000, slurmPorts = 10000;

std::string_view textOf(Environment environment, const char *name) {
  const char *text = environment(name);
  return text ? text : "";
}

std::optional<uint64_t> numberOf(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

Error badLaunch(std::string message, std::string given) {
  return userError("runtime.bad_launch", std::move(message))
      .withGiven(std::move(given))
      .withRule("processes without an MPI are told their number and how many they are, and meet "
                "at MASTER_ADDR and MASTER_PORT");
}

StatusOr<uint16_t> portOf(const char *name, std::string_view text) {
  const std::optional<uint64_t> port = numberOf(text);
  if (port && *port > 0 && *port < 65536)
    return static_cast<uint16_t>(*port);
  return badLaunch(fmt::format("{} is no port", name), fmt::format("{} = {}", name, text))
      .suggest(fmt::format("{}=29500", name));
}

/// The first host of the step, where process 0 is.
std::string slurmHost(Environment environment, std::string &from) {
  for (const char *name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
    if (const auto host = firstSlurmHost(textOf(environment, name))) {
      from = name;
      return *host;
    }
  return {};
}

/// Jobs that run on a host at a time have numbers near each other, and so have steps.
uint16_t slurmPort(Environment environment) {
  const uint64_t job = numberOf(textOf(environment, "SLURM_JOB_ID")).value_or(0);
  const uint64_t step = numberOf(textOf(environment, "SLURM_STEP_ID")).value_or(0);
  return static_cast<uint16_t>(firstSlurmPort + (job + 101 * step) % slurmPorts);
}

Status findHost(Environment environment, bool isSlurm, tcp::MeetingPlace &place) {
  std::string from = "MASTER_ADDR";
  place.host = textOf(environment, "MASTER_ADDR");
  if (place.host.empty() && isSlurm)
    place.host = slurmHost(environment, from);
  if (place.host.empty())
    return badLaunch("it is not known where process 0 is", "MASTER_ADDR is not set")
        .suggest("MASTER_ADDR=HOST, the host of process 0, and MASTER_PORT=29500");
  place.given = fmt::format("{} = {}", from, environment(from.c_str()));
  return {};
}

Status findPorts(Environment environment, bool isSlurm, tcp::MeetingPlace &place) {
  for (const char *name : {"CLEAVE_PORT", "MASTER_PORT"}) {
    const std::string_view text = textOf(environment, name);
    if (text.empty())
      continue;
    CLEAVE_RT_ASSIGN_OR_RETURN(const uint16_t port, portOf(name, text));
    place.given += fmt::format(", {} = {}", name, port);
    const bool isAgents = name == std::string_view("MASTER_PORT") &&
                          textOf(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True";
    if (!isAgents) {
      place.ports = {port};
      return {};
    }
    for (uint16_t i = 1; i <= portsBehindAgent && port <= 65535 - i; ++i)
      place.ports.push_back(static_cast<uint16_t>(port + i));
    place.given += ", where torchrun's agent listens";
    if (!place.ports.empty())
      return {};
    return badLaunch("there is no port behind that of torchrun's agent",
                     fmt::format("MASTER_PORT = {}", port))
        .suggest("CLEAVE_PORT=29501");
  }
  if (!isSlurm)
    return badLaunch("it is not known at which port process 0 is", "MASTER_PORT is not set")
        .suggest("MASTER_PORT=29500, the same for all processes");
  place.ports = {slurmPort(environment)};
  place.given += fmt::format(", port {} of SLURM_JOB_ID = {}", place.ports.front(),
                             textOf(environment, "SLURM_JOB_ID"));
  return {};
}

} // namespace

StatusOr<tcp::MeetingPlace> meetingPlaceOf(const Launch &launch, Environment environment) {
  constexpr int64_t mostProcesses = 1 << 16;
  const std::string_view number = textOf(environment, launch.numberVariable.c_str());
  const std::optional<uint64_t> self = numberOf(number);
  if (!self || *self >= static_cast<uint64_t>(launch.processes) || launch.processes > mostProcesses)
    return badLaunch(fmt::format("{} is no number of one of {} processes", launch.numberVariable,
                                 launch.processes),
                     number.empty() ? launch.numberVariable + " is not set"
                                    : fmt::format("{} = {}", launch.numberVariable, number))
        .suggest(fmt::format("{} from 0 to {}", launch.numberVariable, launch.processes - 1));
  tcp::MeetingPlace place;
  place.process = static_cast<int>(*self);
  place.processes = static_cast<int>(launch.processes);
  const bool isSlurm = launch.launcher == "srun";
  CLEAVE_RT_RETURN_IF_ERROR(findHost(environment, isSlurm, place));
  CLEAVE_RT_RETURN_IF_ERROR(findPorts(environment, isSlurm, place));
  for (const char *name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"})
    if (numberOf(textOf(environment, name)) == static_cast<uint64_t>(launch.processes))
      place.isOneHost = true;
  if (isSlurm && textOf(environment, "SLURM_STEP_NUM_NODES") == "1")
    place.isOneHost = true;
  place.run = fmt::format("port {}", place.ports.front());
  for (const char *name : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID",
                           "SLURM_STEP_ID", "SLURM_RESTART_COUNT"})
    place.run += fmt::format("\n{}", textOf(environment, name));
  return place;
}

} // namespace cleave::rt

// From flags to a run and back to an exit code.
#include "runtime/Train/Main.h"

#include "runtime/Train/Report.h"
#include "runtime/Train/Run.h"
#include "runtime/Train/World.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace cleave::rt {
namespace {

constexpr auto variable = [](const char *name) -> const char * { return std::getenv(name); };

int report(const Error &error, bool json) {
  const std::string text =
      json ? renderJson(error) : renderText(error, ::isatty(STDERR_FILENO) != 0);
  std::fputs(text.c_str(), stderr);
  if (!text.ends_with('\n'))
    std::fputc('\n', stderr);
  return static_cast<int>(error.exitCode);
}

/// Before the processes of a launch know each other, one on each host speaks; the
/// others give it time to, since a launcher ends all when the first has gone.
int reportOnce(const Error &error, bool json, const std::optional<Launch> &launch) {
  // On the host of process 0, that is the one that others may miss.
  const bool isNext = launch && launch->process == 1 && launch->localProcess == 1;
  const bool isFirst = !launch || launch->process == 0 || launch->localProcess == 0;
  if (isFirst || (isNext && error.kind == "comm.no_leader"))
    return report(error, json);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  return static_cast<int>(error.exitCode);
}

/// Prints what was asked for, once; the exit code.
int show(const std::string &text, bool json, const std::optional<Launch> &launch) {
  if (launch && launch->process != 0)
    return static_cast<int>(ExitCode::Done);
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0)
    return static_cast<int>(ExitCode::Done);
  return report(systemError("file.write_failed", "cannot write to standard output", errno), json);
}

/// A run in this process alone.
StatusOr<ExitCode> runAlone(const TrainFlags &flags, const TrainParts &parts, Image image) {
  CLEAVE_RT_RETURN_IF_ERROR(checkAlone(variable));
  const std::optional<Launch> none;
  Run run(flags, parts.kernels, parts.hooks, none, nullptr);
  CLEAVE_RT_RETURN_IF_ERROR(run.prepare(parts.image, std::move(image)));
  // Before any thread is started, so that all of them leave the signals alone.
  CLEAVE_RT_ASSIGN_OR_RETURN(StopSignals signals, StopSignals::create());
  return run.execute(signals);
}

/// This process's part of a run in several. Does not return after a failure: what
/// a message library does at the end of a process would wait for the lost ones.
StatusOr<ExitCode> runTogether(const TrainFlags &flags, const TrainParts &parts, Image image,
                               const std::optional<Launch> &launch) {
  // Before it waits for others.
  if (transportOf(*launch, flags) == TransportKind::TCP)
    CLEAVE_RT_RETURN_IF_ERROR(checkWorld(image.first(), flags, launch));
  // The message library may start threads too.
  CLEAVE_RT_ASSIGN_OR_RETURN(StopSignals signals, StopSignals::create());
  TeamOptions options;
  options.silence = std::chrono::seconds(flags.rankTimeout);
  options.show = [json = flags.json](const Error &error) { report(error, json); };
  CLEAVE_RT_ASSIGN_OR_RETURN(const auto team,
                             joinTeam(*launch, flags, parts.mpiPlugin, variable, options,
                                      [&signals] { return signals.requested(); }));
  auto work = [&]() -> StatusOr<ExitCode> {
    Run run(flags, parts.kernels, parts.hooks, launch, team.get());
    CLEAVE_RT_RETURN_IF_ERROR(run.prepare(parts.image, std::move(image)));
    CLEAVE_RT_ASSIGN_OR_RETURN(const ExitCode code, run.execute(signals));
    CLEAVE_RT_RETURN_IF_ERROR(team->finish());
    return code;
  };
  StatusOr<ExitCode> code = work();
  if (code.ok())
    return code;
  const Error failure = team->report(code.error());
  team->endFailed();
  std::fflush(nullptr);
  ::_exit(static_cast<int>(failure.exitCode));
}

} // namespace

int trainMain(int argc, const char *const *argv, const TrainParts &parts) {
  keepStandardStreamsOpen();
  reportFailedWrites();
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  // Asked for before the flags are known to be right.
  const bool json = std::ranges::find(arguments, "--json") != arguments.end();
  const std::optional<Launch> launch = detectLaunch(variable);
  StatusOr<TrainFlags> flags = parseTrainFlags(arguments);
  if (!flags.ok())
    return reportOnce(flags.error(), json, launch);
  if (flags->help) {
    return show(fmt::format("usage: {} --data FILE --steps N [flags]\n{}",
                            argc > 0 ? argv[0] : "train", trainFlagsHelp()),
                json, launch);
  }
  StatusOr<Image> image = imageFromText(parts.image);
  if (!image.ok())
    return reportOnce(image.error(), json, launch);
  if (flags->info)
    return show(describeImage(*image), json, launch);
  const StatusOr<ExitCode> code = launch ? runTogether(*flags, parts, std::move(*image), launch)
                                         : runAlone(*flags, parts, std::move(*image));
  if (!code.ok())
    return reportOnce(code.error(), json, launch);
  return static_cast<int>(*code);
}

} // namespace cleave::rt

// Whether this process is one of several, and how they may come together. Launchers
// tell by environment variables.
#pragma once

#include "runtime/Base/FunctionRef.h"
#include "runtime/Base/Status.h"
#include "runtime/Comm/Processes/ProcessTeam.h"
#include "runtime/Train/Flags.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cleave::rt {

/// The value of an environment variable, or null.
using Environment = FunctionRef<const char *(const char *name)>;

struct Launch {
  /// "mpirun", "srun", …
  std::string launcher;
  /// The variables that give the number of processes, and of this one.
  std::string variable, numberVariable;
  int64_t processes = 1;
  /// The number of this process, and its number on this host.
  int64_t process = 0, localProcess = 0;
  /// MPI can start from what the launcher gives.
  bool bringsMpi = true;
};

/// The launcher that started this process as one of several; the innermost if there
/// are more. Nothing for a process that runs alone.
std::optional<Launch> detectLaunch(Environment environment);

/// Whether a process for which no launcher was detected was meant to be alone. Refuses
/// (`runtime.bad_launch`) numbers of a process that say that there are more while how many
/// cannot be read, so that N processes never train N times what one was to be a part of.
Status checkAlone(Environment environment);

/// The transport that was asked for, or the one that the launcher brings: MPI, if it
/// does, else TCP.
TransportKind transportOf(const Launch &launch, const TrainFlags &flags);

/// Brings the processes together over that transport: opens the plugin (see
/// openTransport), or meets (see MeetingPlace.h and tcp::meet), and connects.
/// `runtime.transport_missing` (exit 3) where MPI is asked for and the launcher brings
/// none, there is no plugin for this machine's MPI, or MPI knows of another number of
/// processes than the launcher. Over TCP, the kinds of those two, and
/// `runtime.too_few_files` (exit 3) where the limit of open files is too low; `stopRequested` ends
/// the meeting (`comm.stopped`).
StatusOr<std::unique_ptr<ProcessTeam>> joinTeam(const Launch &launch, const TrainFlags &flags,
                                                std::string_view plugin, Environment environment,
                                                TeamOptions options,
                                                std::function<bool()> stopRequested = {});

} // namespace cleave::rt

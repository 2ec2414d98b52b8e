// Whether this process is one of several, and how they may come together. Launchers
// tell by environment variables.
#pragma once

#include "runtime/Base/FunctionRef.h"
#include "runtime/Base/Status.h"
#include "runtime/Comm/Processes/ProcessTeam.h"

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
  /// The variable that gives the number of processes.
  std::string variable;
  int64_t processes = 1;
  /// The number of this process, and its number on this host.
  int64_t process = 0, localProcess = 0;
  /// MPI can start from what the launcher gives.
  bool bringsMpi = true;
};

/// The launcher that started this process as one of several; the innermost if there
/// are more. Nothing for a process that runs alone.
std::optional<Launch> detectLaunch(Environment environment);

/// Brings the processes together: opens the plugin (see openTransport) and connects.
/// `runtime.transport_missing` (exit 3) where the launcher brings no MPI, there is no
/// plugin for this machine's MPI, or MPI knows of another number of processes than the
/// launcher.
StatusOr<std::unique_ptr<ProcessTeam>> joinTeam(const Launch &launch, std::string_view plugin,
                                                Environment environment, TeamOptions options);

} // namespace cleave::rt

// What this process is allowed to be: one host that can run the program's
// instructions, with as many ranks as the program was compiled for, each with
// its share of the cores. Decided before anything is allocated.
#pragma once

#include "runtime/Base/FunctionRef.h"
#include "runtime/Base/Machine.h"
#include "runtime/Base/Status.h"
#include "runtime/Schema/Program.h"
#include "runtime/Train/Flags.h"

#include <optional>
#include <string>

namespace cleave::rt {

/// The value of an environment variable, or null.
using Environment = FunctionRef<const char *(const char *name)>;

/// `runtime.host_unsupported` (exit 3) if the processor of `machine` lacks
/// instructions of the program's profile.
Status checkHost(const Program &program, const MachineInfo &machine);

/// `runtime.world_mismatch` if `--ranks` or a launcher asks for another number of
/// ranks than the mesh has; `runtime.transport_missing` (exit 3) if a launcher
/// started several processes, since ranks are threads of one process here.
Status checkWorld(const Program &program, const TrainFlags &flags, Environment environment);

/// `--threads`, or usable cores / ranks, at least 1.
unsigned threadsPerRank(const Program &program, const TrainFlags &flags, unsigned usableCores);

} // namespace cleave::rt

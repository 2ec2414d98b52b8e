// What this process is allowed to be: on a host that can run the program's
// instructions, with its share of the ranks that the program was compiled for, each
// with its share of the cores. Decided before anything is allocated.
#pragma once

#include "runtime/Base/Machine.h"
#include "runtime/Base/Status.h"
#include "runtime/Comm/Communicator.h"
#include "runtime/Schema/Image.h"
#include "runtime/Train/Flags.h"
#include "runtime/Train/Launch.h"

#include <optional>

namespace cleave::rt {

/// `runtime.host_unsupported` (exit 3) if the processor of `machine` lacks
/// instructions of the program's profile.
Status checkHost(const Program &program, const MachineInfo &machine);

/// `runtime.world_mismatch` if `--ranks` asks for another number of ranks than the mesh
/// has, or a launcher started a number of processes that does not divide it.
Status checkWorld(const Program &program, const TrainFlags &flags,
                  const std::optional<Launch> &launch);

/// All groups and channels of the image's programs.
WorldPlan planWorld(const Image &image);

/// `--threads`, or the share of a rank where `ranksOnThem` share the usable cores, at
/// least 1.
unsigned threadsPerRank(const TrainFlags &flags, unsigned usableCores, int64_t ranksOnThem);

} // namespace cleave::rt

// What a training binary says of its program and of a finished run.
#pragma once

#include "runtime/Base/Json.h"
#include "runtime/Base/Machine.h"
#include "runtime/Schema/Program.h"
#include "runtime/Train/Trainer.h"

#include <string>

namespace cleave::rt {

/// The answer to `--info`: model, mesh, batch, segments, commands of each entry.
std::string describeProgram(const Program &program);

/// The log's "host" object.
JsonValue describeHost(const MachineInfo &machine, int64_t ranks, unsigned threads);

/// The last words of a run: steps, losses, speed, predicted and measured memory,
/// and the profile where there is one. `peakBytes` is of the whole process.
std::string summariseRun(const RunSetup &setup, const RunResult &result, uint64_t peakBytes);

} // namespace cleave::rt

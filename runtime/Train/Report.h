// What a training binary says of its program, its host and a finished run.
#pragma once

#include "runtime/Base/Json.h"
#include "runtime/Base/Machine.h"
#include "runtime/Schema/Image.h"
#include "runtime/Train/Trainer.h"

#include <string>

namespace cleave::rt {

/// The answer to `--info`: model, mesh, batch, segments, commands of each entry; with a
/// pipeline those of each of its programs.
std::string describeImage(const Image &image);

/// The log's "host" object.
JsonValue describeHost(const MachineInfo &machine, int64_t ranks, int64_t processes,
                       unsigned threads);

/// Completes the summary of a finished run: speed and losses are in it already;
/// adds evaluation, predicted and measured memory (`peakBytes` of the whole
/// process) and the profile where there is one.
void completeSummary(const RunSetup &setup, const RunResult &result, uint64_t peakBytes,
                     RunSummary &summary);

} // namespace cleave::rt

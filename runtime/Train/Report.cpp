// Plain text for people.
#include "runtime/Train/Report.h"

#include "runtime/Schema/Unroll.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cleave::rt {
namespace {

std::string megabytes(double bytes) { return fmt::format("{:.1f} MB", bytes / 1e6); }

std::string meshText(const Mesh &mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis &axis : mesh.axes)
    axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  return axes.empty() ? "one rank" : fmt::format("{}", fmt::join(axes, " × "));
}

int64_t parameterCount(const Program &program) {
  int64_t count = 0;
  for (const StateEntry &entry : program.state)
    count += elementCount(entry.shape);
  return count;
}

/// Floating-point operations of one run of an entry on one rank.
double operationsOf(const Program &program, EntryKind kind) {
  double flops = 0;
  forEachCommand(program.entry(kind), [&](const Command &command, int64_t times) {
    flops += command.flops * static_cast<double>(times);
  });
  return flops;
}

} // namespace

std::string describeProgram(const Program &program) {
  const BatchLayout &batch = program.batch;
  std::string text;
  auto line = [&text](const char *name, const std::string &value) {
    text += fmt::format("{:<14} {}\n", name, value);
  };
  line("model", program.modelName);
  line("parameters",
       fmt::format("{} in {} tensors", parameterCount(program), program.state.size()));
  line("ranks", fmt::format("{} ({})", program.mesh.world(), meshText(program.mesh)));
  line("batch", fmt::format("{} sequences of {} tokens: {} micro-batch{} of {} on each data rank",
                            batch.globalBatch, batch.sequence, batch.microBatches,
                            batch.microBatches == 1 ? "" : "es", batch.microBatch));
  line("vocabulary", fmt::format("{}", batch.vocabulary));
  line("instructions", program.profile);
  int64_t total = 0;
  for (const Segment &segment : program.segments) {
    line("segment",
         fmt::format("{:<12} {}", segment.name, megabytes(static_cast<double>(segment.bytes))));
    total += segment.bytes;
  }
  line("memory",
       fmt::format("{} in segments, predicted {} a rank", megabytes(static_cast<double>(total)),
                   program.prediction.bytesPerRank
                       ? megabytes(static_cast<double>(*program.prediction.bytesPerRank))
                       : "unknown"));
  for (size_t i = 0; i < entryCount; ++i) {
    int64_t commands = 0;
    double flops = 0;
    forEachCommand(program.entries[i], [&](const Command &command, int64_t times) {
      commands += times;
      flops += command.flops * static_cast<double>(times);
    });
    line("entry", fmt::format("{:<12} {} commands, {:.3g} operations",
                              nameOf(static_cast<EntryKind>(i)), commands, flops));
  }
  line("recipe", toString(program.recipe));
  return text;
}

JsonValue describeHost(const MachineInfo &machine, int64_t ranks, int64_t processes,
                       unsigned threads) {
  JsonValue host = JsonValue::object();
  host.set("name", JsonValue(machine.hostName));
  host.set("processor", JsonValue(machine.processor));
  host.set("cores", JsonValue(static_cast<int64_t>(machine.usableCores)));
  host.set("memory_bytes", JsonValue(static_cast<int64_t>(machine.memoryBytes)));
  host.set("ranks", JsonValue(ranks));
  host.set("processes", JsonValue(processes));
  host.set("threads_per_rank", JsonValue(static_cast<int64_t>(threads)));
  return host;
}

void completeSummary(const RunSetup &setup, const RunResult &result, uint64_t peakBytes,
                     RunSummary &summary) {
  const Program &program = setup.program;
  const int64_t ranks = program.mesh.world();
  const auto all = static_cast<double>(ranks);
  const int64_t ranksHere = ranks / setup.processes;
  const auto here = static_cast<double>(ranksHere);
  std::optional<uint64_t> predicted;
  if (program.prediction.bytesPerRank)
    predicted = static_cast<uint64_t>(*program.prediction.bytesPerRank * ranksHere);
  summary.setMemory(predicted, peakBytes);
  summary.remark(fmt::format(
      "allocated: {} in segments, {} for staging and scratch",
      megabytes(static_cast<double>(result.memory.segments) * here),
      megabytes(static_cast<double>(result.memory.staging + result.memory.matmulScratch) * here)));
  summary.remark(fmt::format("ranks: {}{}, threads of each: {}", ranks,
                             setup.processes > 1 ? fmt::format(" in {} processes", setup.processes)
                                                 : std::string(),
                             setup.threads));
  if (setup.processes > 1)
    summary.remark("memory is that of the first process");
  const double operations = all * (operationsOf(program, EntryKind::MicroBatch) *
                                       static_cast<double>(program.batch.microBatches) +
                                   operationsOf(program, EntryKind::Update));
  const auto tokens = static_cast<double>(program.batch.globalBatch * program.batch.sequence);
  if (summary.tokensPerSecond() > 0)
    summary.remark(fmt::format("arithmetic: {:.3g} GFLOP a step, {:.3g} GFLOP/s on all ranks",
                               operations * 1e-9,
                               operations * 1e-9 * summary.tokensPerSecond() / tokens));
  if (result.evaluation)
    summary.remark(fmt::format("evaluation at step {}: loss {:.6f} over {} tokens",
                               result.evaluation->step, result.evaluation->loss,
                               result.evaluation->tokens));
  if (setup.data)
    summary.remark(fmt::format("data: {} sequences, {} tokens unused", setup.data->sequences(),
                               setup.data->unusedTokens()));
  if (result.savedStep)
    summary.remark(fmt::format("saved: {}/step-{}", setup.flags.checkpoint, *result.savedStep));
  if (!setup.flags.exportFolder.empty())
    summary.remark(fmt::format("exported: {}/model.safetensors", setup.flags.exportFolder));
  if (result.profile.empty())
    return;
  summary.remark(fmt::format("{:<40} {:>8} {:>10} {:>10} {:>10}", "rank 0 by command", "calls",
                             "seconds", "GFLOP/s", "GB/s"));
  for (const ProfileLine &line : result.profile) {
    const double seconds = std::max(line.seconds, 1e-12);
    summary.remark(fmt::format("{:<40} {:>8} {:>10.4f} {:>10.2f} {:>10.2f}", line.name, line.calls,
                               line.seconds, line.flops / seconds * 1e-9,
                               line.bytes / seconds * 1e-9));
  }
}

} // namespace cleave::rt

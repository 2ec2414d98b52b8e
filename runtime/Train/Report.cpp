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

double operationsOf(const std::vector<Command> &commands) {
  double flops = 0;
  forEachCommand(commands, [&](const Command &command, int64_t times) {
    flops += command.flops * static_cast<double>(times);
  });
  return flops;
}

/// Whether a list is one of `kinds` of a stage.
bool isOneOf(size_t entry, std::initializer_list<StageEntry> kinds) {
  return entry >= entryCount &&
         std::ranges::find(
             kinds, static_cast<StageEntry>((entry - entryCount) % stageEntryCount)) != kinds.end();
}

/// Floating-point operations of one step on all ranks.
double operationsOfStep(const Image &image) {
  const Program &common = image.first();
  const auto ranksEach =
      static_cast<double>(common.mesh.world()) / static_cast<double>(image.programs.size());
  double flops = 0;
  for (const Program &program : image.programs) {
    double ofMicroBatch = operationsOf(program.entry(EntryKind::Survey)) +
                          operationsOf(program.entry(EntryKind::MicroBatch));
    for (size_t entry = entryCount; entry < program.entryLists(); ++entry)
      if (!isOneOf(entry, {StageEntry::Evaluate, StageEntry::Last}))
        ofMicroBatch += operationsOf(program.entryList(entry));
    flops += ranksEach * (ofMicroBatch * static_cast<double>(common.batch.microBatches) +
                          operationsOf(program.entry(EntryKind::Update)));
  }
  return flops;
}

/// "name           value".
std::string lineOf(const char *name, const std::string &value) {
  return fmt::format("{:<14} {}\n", name, value);
}

/// Whether an entry is one that only other programs have.
bool isAbsent(const Program &program, size_t entry) {
  const bool isOptional = isOneOf(entry, {StageEntry::Survey, StageEntry::Last}) ||
                          entry == Program::entryIndex(EntryKind::Survey) ||
                          entry == Program::entryIndex(EntryKind::Last);
  const bool isMicroBatch = entry == Program::entryIndex(EntryKind::MicroBatch);
  return program.entryList(entry).empty() && (isOptional || (program.pipeline && isMicroBatch));
}

/// Segments and entries of one program.
std::string describeProgram(const Program &program) {
  std::string text;
  int64_t total = 0;
  for (const Segment &segment : program.segments) {
    const int64_t bytes = segment.bytes * segment.copies;
    text += lineOf("segment",
                   fmt::format("{:<12} {}{}", segment.name, megabytes(static_cast<double>(bytes)),
                               segment.copies > 1 ? fmt::format(" in {} copies", segment.copies)
                                                  : std::string()));
    total += bytes;
  }
  text += lineOf("memory",
                 fmt::format("{} in segments, predicted {} a rank",
                             megabytes(static_cast<double>(total)),
                             program.prediction.bytesPerRank
                                 ? megabytes(static_cast<double>(*program.prediction.bytesPerRank))
                                 : "unknown"));
  for (size_t entry = 0; entry < program.entryLists(); ++entry) {
    int64_t commands = 0;
    forEachCommand(program.entryList(entry),
                   [&](const Command &, int64_t times) { commands += times; });
    if (!isAbsent(program, entry))
      text += lineOf("entry",
                     fmt::format("{:<12} {} commands, {:.3g} operations", program.entryName(entry),
                                 commands, operationsOf(program.entryList(entry))));
  }
  return text;
}

/// What the ranks of a pipeline with one index do.
std::string describeStages(const Program &program) {
  std::vector<int64_t> numbers;
  for (const Stage &stage : program.pipeline->stages)
    numbers.push_back(stage.number);
  return lineOf("pipeline", fmt::format("index {}: stage{} {} in {} slots, {} actions a step",
                                        program.pipeline->index, numbers.size() == 1 ? "" : "s",
                                        fmt::join(numbers, ", "), program.slots(),
                                        program.pipeline->actions.size()));
}

} // namespace

std::string describeImage(const Image &image) {
  const Program &common = image.first();
  const BatchLayout &batch = common.batch;
  std::string text = lineOf("model", common.modelName);
  text += lineOf("parameters",
                 fmt::format("{} in {} tensors", image.parameterCount(), image.tensors().size()));
  text += lineOf("ranks", fmt::format("{} ({})", common.mesh.world(), meshText(common.mesh)));
  text += lineOf("batch",
                 fmt::format("{} sequences of {} tokens: {} micro-batch{} of {} on each data rank",
                             batch.globalBatch, batch.sequence, batch.microBatches,
                             batch.microBatches == 1 ? "" : "es", batch.microBatch));
  text += lineOf("vocabulary", fmt::format("{}", batch.vocabulary));
  if (common.prediction.stepSeconds)
    text +=
        lineOf("step", fmt::format("predicted {:.4g} s{}", *common.prediction.stepSeconds,
                                   common.mesh.world() > 1 ? ", with a core for each rank" : ""));
  text += lineOf("device", common.device);
  text += lineOf("instructions", common.profile);
  if (common.pipeline) {
    const auto most = image.predictedBytesPerRank();
    text += lineOf("stages", fmt::format("{} on {} ranks, predicted at most {} a rank",
                                         image.stages(), image.programs.size(),
                                         most ? megabytes(static_cast<double>(*most)) : "unknown"));
  }
  for (const Program &program : image.programs) {
    if (program.pipeline)
      text += describeStages(program);
    text += describeProgram(program);
  }
  return text + lineOf("recipe", toString(common.recipe));
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
  const Program &common = setup.image.first();
  const int64_t ranks = common.mesh.world();
  // Of the first process, whose ranks are the first.
  std::optional<uint64_t> predicted;
  if (setup.image.predictedBytesPerRank()) {
    predicted = 0;
    for (int64_t rank = 0; rank < ranks / setup.processes; ++rank)
      *predicted += static_cast<uint64_t>(*setup.image.of(rank).prediction.bytesPerRank);
  }
  summary.setMemory(predicted, peakBytes);
  const bool isCrowded = setup.cores.ranks > setup.cores.cores;
  summary.setPredictedStep(common.prediction.stepSeconds,
                           isCrowded ? std::optional(setup.cores) : std::nullopt);
  summary.remark(fmt::format(
      "allocated: {} in segments, {} for staging and scratch",
      megabytes(static_cast<double>(result.memory.segments)),
      megabytes(static_cast<double>(result.memory.staging + result.memory.matmulScratch))));
  summary.remark(fmt::format("ranks: {}{}, threads of each: {}", ranks,
                             setup.processes > 1 ? fmt::format(" in {} processes", setup.processes)
                                                 : std::string(),
                             setup.threads));
  if (setup.processes > 1)
    summary.remark("memory is that of the first process");
  const double operations = operationsOfStep(setup.image);
  const auto tokens = static_cast<double>(common.batch.globalBatch * common.batch.sequence);
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
  for (const TrafficLine &line : result.traffic)
    summary.remark(fmt::format("rank 0 exchanged in {} steps: {} {}: {} messages, {} bytes",
                               result.stepsDone - setup.firstStep, line.kind, describe(line),
                               line.count.calls, line.count.bytes));
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

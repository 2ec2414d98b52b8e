// What a program says of its own stages.
#include "runtime/Schema/ValidateCommands.h"

#include <fmt/format.h>

#include <algorithm>

namespace cleave::rt {
namespace {

constexpr int64_t mostBuffers = int64_t(1) << 20;

Error broken(std::string message) { return brokenImage("image.pipeline", std::move(message)); }

/// All ranks of a pipeline have the same sequences, and tensors of their own.
Status checkOtherAxes(const Program &program, const std::set<int32_t> &axes) {
  auto cuts = [&](const AxisList &list) {
    return std::ranges::any_of(list, [&](int32_t axis) { return axes.contains(axis); });
  };
  if (cuts(program.batch.dataAxes) || cuts(program.batch.sequenceAxes))
    return broken("the batch is cut over an axis of the pipeline");
  for (const StateEntry &entry : program.state)
    for (size_t slot = 0; slot < slotCount; ++slot)
      if (std::ranges::any_of(entry.shardingOf(static_cast<Slot>(slot)).axes, cuts))
        return broken(fmt::format("state \"{}\" is cut over an axis of the pipeline", entry.name));
  return {};
}

Status checkRegions(const Program &program, const std::vector<Region> &regions,
                    const std::string &owner) {
  const int64_t slots = program.slots();
  for (const Region &region : regions) {
    CLEAVE_RT_RETURN_IF_ERROR(checkRegion(program, region, 4, owner));
    if (region.bytes % 4 != 0)
      return broken(fmt::format("{} have {} bytes, which are no whole words", owner, region.bytes));
    if (program.segments[region.segment].copies != slots)
      return broken(fmt::format("{} lie in segment \"{}\", which has {} copies for {} slots", owner,
                                program.segments[region.segment].name,
                                program.segments[region.segment].copies, slots));
  }
  return {};
}

Status checkBoundary(const Program &program, const Stage &stage) {
  const StageBoundary &boundary = stage.boundary;
  auto owner = [&](const char *what) {
    return fmt::format("the {} of stage {}", what, stage.number);
  };
  CLEAVE_RT_RETURN_IF_ERROR(checkRegions(program, boundary.inputs, owner("inputs")));
  CLEAVE_RT_RETURN_IF_ERROR(checkRegions(program, boundary.outputs, owner("outputs")));
  CLEAVE_RT_RETURN_IF_ERROR(
      checkRegions(program, boundary.outputGradients, owner("gradients of outputs")));
  CLEAVE_RT_RETURN_IF_ERROR(
      checkRegions(program, boundary.inputGradients, owner("gradients of inputs")));
  if (stage.number == 0 && !(boundary.inputs.empty() && boundary.inputGradients.empty()))
    return broken("stage 0 has inputs; nothing comes before it");
  return {};
}

} // namespace

Status validateStages(const Program &program) {
  const Pipeline &pipeline = *program.pipeline;
  std::set<int32_t> axes;
  CLEAVE_RT_RETURN_IF_ERROR(
      checkAxes(program, pipeline.axes, axes, "image.pipeline", "the pipeline"));
  const int64_t ranks = program.mesh.sizeOf(pipeline.axes);
  if (pipeline.index < 0 || pipeline.index >= ranks)
    return broken(fmt::format("a program has index {} in a pipeline of {}", pipeline.index, ranks));
  if (pipeline.buffers < 1 || pipeline.buffers > mostBuffers)
    return broken(
        fmt::format("channels hold {} messages; they hold 1 to {}", pipeline.buffers, mostBuffers));
  CLEAVE_RT_RETURN_IF_ERROR(checkOtherAxes(program, axes));
  if (!program.entry(EntryKind::MicroBatch).empty())
    return broken("a program with a pipeline has commands in microbatch; what it does for a "
                  "micro-batch are its stages' entries");
  for (EntryKind kind : {EntryKind::Survey, EntryKind::Last})
    if (!program.entry(kind).empty())
      return broken(fmt::format("a program with a pipeline has commands in {}; what it does for a "
                                "micro-batch are its stages' entries",
                                nameOf(kind)));
  if (pipeline.stages.empty())
    return broken(fmt::format("index {} of the pipeline has no stage", pipeline.index));
  int64_t before = -2;
  for (const Stage &stage : pipeline.stages) {
    if (stage.number < 0 || stage.number <= before)
      return broken(fmt::format("stage {} of index {} does not come in ascending order",
                                stage.number, pipeline.index));
    if (stage.number == before + 1)
      return broken(fmt::format("stages {} and {} are both on index {}; neighbours are on "
                                "different ranks",
                                before, stage.number, pipeline.index));
    if (stage.number >= pipeline.surveyed && !stage.entry(StageEntry::Survey).empty())
      return broken(fmt::format("stage {} has a survey, and only {} stages are surveyed",
                                stage.number, pipeline.surveyed));
    before = stage.number;
    CLEAVE_RT_RETURN_IF_ERROR(checkBoundary(program, stage));
  }
  return {};
}

} // namespace cleave::rt

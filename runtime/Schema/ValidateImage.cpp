// What the programs of an image must agree on.
#include "runtime/Schema/ValidateCommands.h"

#include <fmt/format.h>

#include <map>

namespace cleave::rt {
namespace {

/// Of stages × micro-batches.
constexpr int64_t mostMicroBatches = int64_t(1) << 20;

Error broken(std::string message) { return brokenImage("image.pipeline", std::move(message)); }

bool same(const Mesh &a, const Mesh &b) {
  if (a.axes.size() != b.axes.size())
    return false;
  for (size_t i = 0; i < a.axes.size(); ++i)
    if (a.axes[i].name != b.axes[i].name || a.axes[i].size != b.axes[i].size)
      return false;
  return true;
}

bool same(const BatchLayout &a, const BatchLayout &b) {
  return a.globalBatch == b.globalBatch && a.microBatch == b.microBatch &&
         a.microBatches == b.microBatches && a.sequence == b.sequence &&
         a.vocabulary == b.vocabulary && a.dataAxes == b.dataAxes &&
         a.sequenceAxes == b.sequenceAxes;
}

/// The first thing in which two programs of a run differ; null for none.
const char *differenceOf(const Program &a, const Program &b) {
  if (a.modelName != b.modelName)
    return "model";
  if (a.profile != b.profile)
    return "profile";
  if (a.device != b.device)
    return "device";
  if (!same(a.mesh, b.mesh))
    return "mesh";
  if (!same(a.batch, b.batch))
    return "batch";
  if (a.configText != b.configText)
    return "config";
  if (toString(a.recipe) != toString(b.recipe))
    return "recipe";
  if (toString(a.plan) != toString(b.plan))
    return "plan";
  if (a.pipeline->axes != b.pipeline->axes)
    return "axes of the pipeline";
  if (a.pipeline->buffers != b.pipeline->buffers)
    return "buffers of the pipeline";
  if (a.pipeline->surveyed != b.pipeline->surveyed)
    return "surveyed stages of the pipeline";
  // Ranks stop together by what they read there.
  if (a.exchange.gradientNorm.has_value() != b.exchange.gradientNorm.has_value())
    return "gradient norm in the exchange";
  return nullptr;
}

Status checkCommon(const Image &image) {
  for (size_t i = 0; i < image.programs.size(); ++i) {
    const Program &program = image.programs[i];
    if (!program.pipeline)
      return broken(fmt::format("program {} has no pipeline, others have", i));
    if (program.pipeline->index != static_cast<int64_t>(i))
      return broken(
          fmt::format("program {} has index {} of the pipeline", i, program.pipeline->index));
    if (const char *what = differenceOf(image.first(), program))
      return broken(fmt::format("programs 0 and {} differ in their {}", i, what));
  }
  const int64_t ranks = image.first().mesh.sizeOf(image.first().pipeline->axes);
  if (ranks != static_cast<int64_t>(image.programs.size()))
    return broken(
        fmt::format("{} programs for a pipeline of {} ranks", image.programs.size(), ranks));
  return {};
}

/// The stages of the model in order.
StatusOr<std::vector<const Stage *>> stagesOf(const Image &image) {
  const int64_t count = image.stages();
  std::vector<const Stage *> stages(static_cast<size_t>(count), nullptr);
  for (const Program &program : image.programs)
    for (const Stage &stage : program.pipeline->stages) {
      if (stage.number >= count || stages[static_cast<size_t>(stage.number)])
        return broken(
            fmt::format("stage {} of {} is beyond the last or there twice", stage.number, count));
      stages[static_cast<size_t>(stage.number)] = &stage;
    }
  if (image.first().pipeline->surveyed > count)
    return broken(
        fmt::format("{} of {} stages are surveyed", image.first().pipeline->surveyed, count));
  if (image.first().batch.microBatches > mostMicroBatches / count)
    return broken(fmt::format("{} stages with {} micro-batches; together they are at most {}",
                              count, image.first().batch.microBatches, mostMicroBatches));
  return stages;
}

Status checkSizes(const std::vector<Region> &sent, const std::vector<Region> &received,
                  const std::string &what) {
  if (sent.size() != received.size())
    return broken(
        fmt::format("{}: {} regions are sent, {} received", what, sent.size(), received.size()));
  for (size_t i = 0; i < sent.size(); ++i)
    if (sent[i].bytes != received[i].bytes)
      return broken(fmt::format("{}: region {} has {} bytes where it is sent and {} where it is "
                                "received",
                                what, i, sent[i].bytes, received[i].bytes));
  return {};
}

Status checkBoundaries(const std::vector<const Stage *> &stages) {
  for (size_t i = 0; i + 1 < stages.size(); ++i) {
    const StageBoundary &before = stages[i]->boundary, &after = stages[i + 1]->boundary;
    const std::string between = fmt::format("from stage {} to stage {}", i, i + 1);
    if (after.inputs.empty())
      return broken(fmt::format("nothing goes {}", between));
    CLEAVE_RT_RETURN_IF_ERROR(checkSizes(before.outputs, after.inputs, "activations " + between));
    CLEAVE_RT_RETURN_IF_ERROR(
        checkSizes(after.inputGradients, before.outputGradients, "gradients against " + between));
  }
  const StageBoundary &last = stages.back()->boundary;
  if (!last.outputs.empty() || !last.outputGradients.empty())
    return broken(fmt::format("stage {} is the last and has outputs", stages.size() - 1));
  return {};
}

bool alike(const StateEntry &a, const StateEntry &b) {
  for (size_t i = 0; i < slotCount; ++i)
    if (a.slots[i].has_value() != b.slots[i].has_value())
      return false;
  return a.aliases == b.aliases && a.shape == b.shape && a.fileShape == b.fileShape &&
         a.decay == b.decay && a.initial.mean == b.initial.mean && a.initial.std == b.initial.std;
}

Status checkTensors(const Image &image) {
  struct Known {
    const StateEntry *entry;
    int counted = 0;
  };
  std::map<std::string, Known> tensors;
  std::map<std::string, std::string> aliases;
  for (const Program &program : image.programs)
    for (const StateEntry &entry : program.state) {
      Known &known = tensors.try_emplace(entry.name, Known{&entry}).first->second;
      known.counted += entry.counted;
      if (!alike(*known.entry, entry))
        return brokenImage("image.state",
                           fmt::format("state \"{}\" is not alike in two programs", entry.name));
      for (const std::string &alias : entry.aliases)
        if (aliases.try_emplace(alias, entry.name).first->second != entry.name)
          return brokenImage("image.state",
                             fmt::format("alias \"{}\" is that of two tensors", alias));
    }
  for (const auto &[name, known] : tensors) {
    if (known.counted != 1)
      return brokenImage("image.state",
                         fmt::format("state \"{}\" is counted by {} programs instead "
                                     "of one",
                                     name, known.counted));
    if (aliases.contains(name))
      return brokenImage("image.state", fmt::format("\"{}\" is a tensor and an alias", name));
  }
  return {};
}

} // namespace

Status validate(const Image &image) {
  if (image.programs.empty())
    return broken("an image has no program");
  for (const Program &program : image.programs)
    CLEAVE_RT_RETURN_IF_ERROR(validate(program));
  if (image.programs.size() > 1 || image.first().pipeline) {
    CLEAVE_RT_RETURN_IF_ERROR(checkCommon(image));
    CLEAVE_RT_ASSIGN_OR_RETURN(const auto stages, stagesOf(image));
    CLEAVE_RT_RETURN_IF_ERROR(checkBoundaries(stages));
    CLEAVE_RT_RETURN_IF_ERROR(validateActions(image));
    CLEAVE_RT_RETURN_IF_ERROR(validateCollectiveOrder(image));
  }
  return checkTensors(image);
}

} // namespace cleave::rt

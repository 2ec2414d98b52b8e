// JSON → the pipeline of a program.
#include "runtime/Schema/ImageReading.h"

namespace cleave::rt::reading {
namespace {

Stage readStage(ObjectReader &in) {
  Stage stage;
  stage.number = needInteger(in, "number");
  stage.boundary.inputs = needRegions(in, "inputs");
  stage.boundary.outputs = needRegions(in, "outputs");
  stage.boundary.outputGradients = needRegions(in, "output_gradients");
  stage.boundary.inputGradients = needRegions(in, "input_gradients");
  for (size_t i = 0; i < stageEntryCount; ++i)
    if (static_cast<StageEntry>(i) != StageEntry::Last || in.has(nameOf(StageEntry::Last)))
      readCommands(in, nameOf(static_cast<StageEntry>(i)), stage.entries[i]);
  return stage;
}

/// [kind, stage, micro-batch, slot], of a transfer with the peer behind it.
std::optional<PipelineAction> actionOf(const JsonValue &value) {
  if (!value.isArray() || value.elements().empty() || !value.elements().front().isString())
    return std::nullopt;
  PipelineAction action;
  size_t kind = 0;
  while (kind < PipelineAction::kinds &&
         value.elements().front().string() != nameOf(static_cast<PipelineAction::Kind>(kind)))
    ++kind;
  if (kind == PipelineAction::kinds)
    return std::nullopt;
  action.kind = static_cast<PipelineAction::Kind>(kind);
  std::vector<int32_t *> numbers{&action.stage, &action.microBatch, &action.slot};
  if (action.isTransfer())
    numbers.push_back(&action.peer);
  if (value.elements().size() != numbers.size() + 1)
    return std::nullopt;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const JsonValue &number = value.elements()[i + 1];
    if (!number.isInteger() || number.integer() < 0 || number.integer() > maxInt32)
      return std::nullopt;
    *numbers[i] = static_cast<int32_t>(number.integer());
  }
  return action;
}

} // namespace

void readPipeline(ObjectReader &in, Pipeline &pipeline) {
  in.require("axes");
  pipeline.axes = axes(in, "axes", in.raw("axes"));
  pipeline.index = needInteger(in, "index");
  pipeline.buffers = needInteger(in, "buffers", {.min = 1});
  pipeline.surveyed = in.integer("surveyed", {.min = 0}).value_or(0);
  eachObject(in, "stages", [&](ObjectReader &from) {
    pipeline.stages.push_back(readStage(from));
    return Status::success();
  });
  in.require("actions");
  if (const JsonValue::Array *list = in.list("actions"))
    for (const JsonValue &value : *list) {
      const auto action = actionOf(value);
      if (!action)
        in.absorb(malformed(in, "actions",
                            "an action is [kind, stage, micro-batch, slot], of a transfer "
                            "[kind, stage, micro-batch, slot, peer]"));
      pipeline.actions.push_back(action.value_or(PipelineAction{}));
    }
}

} // namespace cleave::rt::reading

// Actions resolved to channels and addresses, and the loop over them.
#include "runtime/Train/PipelineRunner.h"

#include <fmt/format.h>

#include <limits>
#include <set>

namespace cleave::rt {
namespace {

using Kind = PipelineAction::Kind;

const std::vector<Region> &regionsOf(const StageBoundary &boundary, Kind kind) {
  switch (kind) {
  case Kind::SendActivation:
    return boundary.outputs;
  case Kind::SendGradient:
    return boundary.inputGradients;
  case Kind::ReceiveGradient:
    return boundary.outputGradients;
  default:
    return boundary.inputs;
  }
}

/// The channel of a transfer of the rank with `index` in `lane`, the ranks of a
/// pipeline in order.
ChannelKey keyOf(const PipelineAction &transfer, const std::vector<int64_t> &lane, int64_t index) {
  const auto self = static_cast<int>(lane[static_cast<size_t>(index)]);
  const auto peer = static_cast<int>(lane[static_cast<size_t>(transfer.peer)]);
  const TransferKind kind =
      transfer.isOfGradient() ? TransferKind::Gradient : TransferKind::Activation;
  return transfer.isSend() ? ChannelKey{self, peer, kind} : ChannelKey{peer, self, kind};
}

} // namespace

std::vector<ChannelPlan> channelsOf(const Image &image) {
  const Program &common = image.first();
  std::vector<ChannelPlan> channels;
  if (!common.pipeline)
    return channels;
  const AxisList &axes = common.pipeline->axes;
  const auto buffers = static_cast<int>(common.pipeline->buffers);
  for (int64_t rank = 0; rank < common.mesh.world(); ++rank) {
    if (common.mesh.indexOf(rank, axes) != 0)
      continue;
    const std::vector<int64_t> lane = common.mesh.groupOf(rank, axes);
    std::set<ChannelKey> keys;
    for (const Program &program : image.programs)
      for (const PipelineAction &action : program.pipeline->actions)
        if (action.isSend())
          keys.insert(keyOf(action, lane, program.pipeline->index));
    for (const ChannelKey &key : keys)
      channels.push_back({key, buffers});
  }
  return channels;
}

StatusOr<std::unique_ptr<PipelineRunner>> PipelineRunner::create(const Program &program,
                                                                 World &world, Executor &executor) {
  std::unique_ptr<PipelineRunner> runner(new PipelineRunner(program, world, executor));
  CLEAVE_RT_RETURN_IF_ERROR(runner->prepare());
  return runner;
}

Status PipelineRunner::prepare() {
  pieces.resize(pipeline.stages.size() * static_cast<size_t>(program.slots()) *
                PipelineAction::kinds);
  for (int64_t micro = 0; micro < program.batch.microBatches; ++micro)
    purposes.push_back(fmt::format("micro-batch {}", micro));
  for (size_t index = 0; index < pipeline.actions.size(); ++index) {
    const PipelineAction &action = pipeline.actions[index];
    if (!action.isTransfer()) {
      steps.push_back({action, pipeline.entryOf(index)});
      continue;
    }
    CLEAVE_RT_ASSIGN_OR_RETURN(const Step step, prepareTransfer(action));
    steps.push_back(step);
  }
  // A micro-batch that goes forward alone moves what any does, in slot 0.
  for (size_t stage = 0; stage < pipeline.stages.size(); ++stage)
    for (Kind kind : {Kind::ReceiveActivation, Kind::Forward, Kind::SendActivation})
      for (const PipelineAction &action : pipeline.actions)
        if (action.kind == kind && static_cast<size_t>(action.stage) == stage &&
            action.microBatch == 0) {
          PipelineAction alike = action;
          alike.slot = 0;
          Step step{alike};
          if (alike.isTransfer()) {
            CLEAVE_RT_ASSIGN_OR_RETURN(step, prepareTransfer(alike));
          }
          alone.push_back(step);
        }
  return {};
}

StatusOr<PipelineRunner::Step> PipelineRunner::prepareTransfer(const PipelineAction &action) {
  const std::vector<int64_t> lane = program.mesh.groupOf(world.rank(), pipeline.axes);
  CLEAVE_RT_ASSIGN_OR_RETURN(Channel * channel, world.channel(keyOf(action, lane, pipeline.index)));
  return Step{action, StageEntry::Forward, channel, &piecesOf(action)};
}

const PipelineRunner::Pieces &PipelineRunner::piecesOf(const PipelineAction &action) {
  const auto slots = static_cast<size_t>(program.slots());
  auto &made =
      pieces[(static_cast<size_t>(action.stage) * slots + static_cast<size_t>(action.slot)) *
                 PipelineAction::kinds +
             static_cast<size_t>(action.kind)];
  if (made)
    return *made;
  made = std::make_unique<Pieces>();
  const RankMemory &memory = executor.memory();
  const std::vector<int64_t> distances = memory.distancesTo(action.slot);
  const StageBoundary &boundary = pipeline.stages[static_cast<size_t>(action.stage)].boundary;
  for (const Region &region : regionsOf(boundary, action.kind)) {
    const std::span<float> piece(
        reinterpret_cast<float *>(memory.address(region) + distances[region.segment]),
        static_cast<size_t>(region.bytes / 4));
    made->sent.push_back(piece);
    made->received.push_back(piece);
  }
  return *made;
}

Status PipelineRunner::transfer(const Step &step, std::string_view purpose) {
  return step.action.isSend() ? step.channel->send(step.pieces->sent, purpose)
                              : step.channel->receive(step.pieces->received, purpose);
}

Error PipelineRunner::failed(const Error &error, const PipelineAction &action) const {
  Error with = error;
  with.notes.push_back(
      {{},
       fmt::format("on rank {} in {} of stage {}, micro-batch {}", world.rank(),
                   nameOf(action.kind), pipeline.stages[static_cast<size_t>(action.stage)].number,
                   action.microBatch)});
  return with;
}

Status PipelineRunner::runStep(FunctionRef<Status(int64_t microBatch)> fill) {
  for (const Step &step : steps) {
    const PipelineAction &action = step.action;
    Status status;
    if (action.isTransfer()) {
      status = transfer(step, purposes[static_cast<size_t>(action.microBatch)]);
    } else {
      CLEAVE_RT_RETURN_IF_ERROR(fill(action.microBatch));
      status = executor.run(static_cast<size_t>(action.stage), step.entry, action.slot);
    }
    if (!status.ok())
      return failed(status.error(), action);
  }
  return {};
}

Status PipelineRunner::runAlone(StageEntry entry, int64_t stages, int64_t microBatch,
                                std::string_view purpose) {
  for (const Step &step : alone) {
    const int64_t number = pipeline.stages[static_cast<size_t>(step.action.stage)].number;
    if (number >= stages || (step.action.isSend() && number + 1 == stages))
      continue;
    const Status status = step.action.isTransfer()
                              ? transfer(step, purpose)
                              : executor.run(static_cast<size_t>(step.action.stage), entry, 0);
    if (!status.ok()) {
      PipelineAction action = step.action;
      action.microBatch = static_cast<int32_t>(microBatch);
      return failed(status.error(), action);
    }
  }
  return {};
}

Status PipelineRunner::survey(FunctionRef<Status(int64_t microBatch)> fill) {
  for (int64_t micro = 0; pipeline.surveyed > 0 && micro < program.batch.microBatches; ++micro) {
    CLEAVE_RT_RETURN_IF_ERROR(fill(micro));
    CLEAVE_RT_RETURN_IF_ERROR(runAlone(StageEntry::Survey, pipeline.surveyed, micro,
                                       purposes[static_cast<size_t>(micro)]));
  }
  return {};
}

Status PipelineRunner::evaluate() {
  return runAlone(StageEntry::Evaluate, std::numeric_limits<int64_t>::max(), 0, "the evaluation");
}

} // namespace cleave::rt

//===- WriteSchedule.cpp - From a plan's pipeline to its table -------------===//

#include "cleave/Schedule/Schedule.h"
#include "cleave/Transforms/Pipeline/Pipeline.h"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_WRITESCHEDULEPASS
#include "lib/Transforms/Pipeline/Passes.h.inc"

/// The numbers of the plan, and the schedule that takes them.
static FailureOr<std::pair<const Schedule *, PipelineShape>> shapeOf(plan::SolutionOp solution) {
  plan::AxisTable axes(solution);
  auto batch = plan::entry<plan::BatchOp>(solution);
  auto layout = plan::entry<plan::LayoutOp>(solution);
  const auto global = static_cast<int64_t>(batch.getGlobal());
  const auto micro = static_cast<int64_t>(batch.getMicro());
  const int64_t dp = axes.ways(layout.getDims(), "batch");
  if (global < 1 || micro < 1 || global % dp != 0 || global / dp % micro != 0)
    return batch.emitOpError() << "is not dealt out evenly over " << dp << " ranks";
  PipelineShape shape{1, 1, global / dp / micro};
  auto pipeline = plan::entry<plan::PipelineOp>(solution);
  if (!pipeline)
    return std::pair(findSchedule("1f1b"), shape);
  const auto expanded = axes.expand(pipeline.getAxis());
  const Schedule *schedule = findSchedule(pipeline.getSchedule());
  shape.ranks = axes.size(expanded);
  shape.stages = llvm::range_size(pipeline.getOps<plan::StageOp>());
  if (expanded.empty() || !schedule || shape.stages % shape.ranks != 0 ||
      !schedule->takes(shape.stages / shape.ranks))
    return pipeline.emitOpError() << "has no schedule '" << pipeline.getSchedule() << "' of "
                                  << shape.stages << " stages over the axis '" << pipeline.getAxis()
                                  << "'";
  return std::pair(schedule, shape);
}

FailureOr<pipe::ScheduleOp> writeSchedule(OpBuilder &b, plan::SolutionOp solution) {
  auto shape = shapeOf(solution);
  if (failed(shape))
    return failure();
  if (!shape->second.canBeWritten()) {
    auto batch = plan::entry<plan::BatchOp>(solution);
    InFlightDiagnostic error = batch.emitError()
                               << "plan.microbatches_too_many: " << shape->second.microBatches
                               << " micro-batches make too long a schedule";
    error.attachNote() << "given: global " << batch.getGlobal() << " micro " << batch.getMicro();
    error.attachNote() << "rule: stages × micro-batches are at most " << kMostCells;
    error.attachNote() << "suggestion: micro "
                       << leastMicroBatch(batch.getMicro() * shape->second.microBatches,
                                          shape->second.stages);
    return error;
  }
  const pipe::Table table = makeTable(*shape->first, shape->second);
  Location loc = solution.getLoc();
  auto pipeline = plan::entry<plan::PipelineOp>(solution);
  auto schedule = pipe::ScheduleOp::create(b, loc, "step", shape->first->name, table.microBatches,
                                           table.buffers);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&schedule.getBody().emplaceBlock());
  if (!pipeline)
    pipe::StageOp::create(b, loc, 0, 0, ArrayAttr(), DenseI64ArrayAttr());
  else
    for (auto [i, stage] : llvm::enumerate(pipeline.getOps<plan::StageOp>()))
      pipe::StageOp::create(b, stage.getLoc(), i, table.rankOfStage[i], stage.getLayersAttr(),
                            stage.getCountsAttr());
  for (auto [i, rank] : llvm::enumerate(table.ranks))
    pipe::RankOp::create(b, loc, i, rank.slots,
                         pipe::ActionsAttr::get(b.getContext(), rank.actions));
  return schedule;
}

namespace {
struct WriteSchedulePass : impl::WriteSchedulePassBase<WriteSchedulePass> {
  using WriteSchedulePassBase::WriteSchedulePassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto plans = llvm::to_vector(module.getOps<plan::SolutionOp>());
    if (plans.size() != 1) {
      module.emitError() << "holds " << plans.size()
                         << " plans; cleave-pipeline-schedule needs one plan.solution";
      return signalPassFailure();
    }
    auto old = llvm::to_vector(module.getOps<pipe::ScheduleOp>());
    OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
    if (failed(writeSchedule(b, plans.front())))
      return signalPassFailure();
    for (pipe::ScheduleOp schedule : old)
      schedule.erase();
  }
};
} // namespace

} // namespace cleave

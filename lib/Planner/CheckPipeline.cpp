//===- CheckPipeline.cpp - Can this pipeline be made of this model? --------===//

#include "cleave/Schedule/Schedule.h"
#include "lib/Planner/Refuse.h"
#include "lib/Planner/Stages.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
namespace cleave {

namespace {
class PipelineChecker {
public:
  PipelineChecker(plan::PipelineOp pipeline, plan::SolutionOp solution, ModuleOp model)
      : pipeline(pipeline), solution(solution), model(model), axes(solution) {}

  LogicalResult run() {
    if (failed(checkAxis()) || failed(checkSchedule()))
      return failure();
    auto found = layersOf(model);
    if (!found) {
      InFlightDiagnostic error =
          refuse(pipeline,
                 "plan.stage_layers_mismatch: the model has no @forward of at most " +
                     Twine(kMostLayers) + " layers",
                 "a pipeline's stages are made of the layers that @forward calls");
      error.attachNote() << "suggestion: leave out plan.pipeline";
      return error;
    }
    layers = std::move(*found);
    return success(succeeded(checkCounts()) && succeeded(checkPlaces()) &&
                   succeeded(checkShared()) && succeeded(checkSize()));
  }

private:
  auto stageOps() { return pipeline.getOps<plan::StageOp>(); }
  int64_t stages() { return static_cast<int64_t>(llvm::range_size(stageOps())); }

  LogicalResult checkAxis() {
    std::vector<std::string> known;
    for (auto axis : solution.getOps<plan::AxisOp>())
      known.push_back(axis.getName().str());
    const auto expanded = axes.expand(pipeline.getAxis());
    if (expanded.empty())
      return refuseName(pipeline,
                        "plan.unknown_axis: the plan has no axis '" + pipeline.getAxis() + "'",
                        pipeline.getAxis(), known);
    ranks = axes.size(expanded);
    if (stages() % ranks == 0)
      return success();
    InFlightDiagnostic error =
        refuse(pipeline,
               "plan.stages_indivisible: " + Twine(stages()) + " stages cannot be dealt out to " +
                   Twine(ranks) + " ranks along '" + pipeline.getAxis() + "'",
               "every rank has as many stages");
    error.attachNote() << "suggestion: " << (stages() / ranks + 1) * ranks << " stages";
    return error;
  }

  LogicalResult checkSchedule() {
    std::vector<std::string> known;
    for (const Schedule &schedule : allSchedules())
      known.push_back(schedule.name.str());
    const StringRef name = pipeline.getSchedule();
    const Schedule *schedule = findSchedule(name);
    if (!schedule)
      return refuseName(pipeline, "plan.unknown_schedule: there is no schedule '" + name + "'",
                        name, known);
    const int64_t ofRank = stages() / ranks;
    if (schedule->takes(ofRank))
      return success();
    InFlightDiagnostic error =
        refuse(pipeline,
               "plan.schedule_stages: " + name + " does not run " + Twine(ofRank) +
                   (ofRank == 1 ? " stage" : " stages") + " on a rank",
               schedule->severalStages ? name + " takes two or more" : name + " takes one");
    error.attachNote() << "suggestion: " << (schedule->severalStages ? "1f1b" : "interleaved");
    return error;
  }

  /// The stages have as many layers of each kind as the model.
  LogicalResult checkCounts() {
    llvm::MapVector<StringRef, int64_t, llvm::StringMap<unsigned>> has;
    llvm::StringMap<int64_t> given;
    std::vector<std::string> known;
    for (const Layer &layer : layers)
      if (++has[layer.kind] == 1)
        known.push_back(layer.kind.str());
    for (auto stage : stageOps())
      for (auto [kind, count] :
           llvm::zip(stage.getLayers().getAsValueRange<StringAttr>(), stage.getCounts())) {
        if (!has.contains(kind))
          return refuseName(stage,
                            "plan.unknown_kind: the model has no kind of layer '" + kind + "'",
                            kind, known);
        int64_t &sum = given[kind];
        if (llvm::AddOverflow(sum, count, sum))
          sum = std::numeric_limits<int64_t>::max();
      }
    for (const auto &[kind, count] : has)
      if (given.lookup(kind) != count) {
        InFlightDiagnostic error =
            mismatch(pipeline, "the stages have " + Twine(given.lookup(kind)) + " of '" + kind +
                                   "', the model has " + Twine(count));
        error.attachNote() << "suggestion: counts of '" << kind << "' that add up to " << count;
        return error;
      }
    return success();
  }

  InFlightDiagnostic mismatch(Operation *op, const Twine &text) {
    return refuse(op, "plan.stage_layers_mismatch: " + text,
                  "the stages have each layer of the model once, in its order");
  }

  /// The layers come in the order of the model.
  LogicalResult checkPlaces() {
    size_t at = 0;
    for (auto stage : stageOps())
      for (auto [kind, count] :
           llvm::zip(stage.getLayers().getAsValueRange<StringAttr>(), stage.getCounts()))
        for (int64_t i = 0; i < count; ++i, ++at)
          if (layers[at].kind != kind) {
            InFlightDiagnostic error =
                mismatch(stage, "layer " + Twine(at) + " of the model is '" + layers[at].kind +
                                    "', not '" + kind + "'");
            error.attachNote() << "suggestion: '" << layers[at].kind << "' before '" << kind << "'";
            return error;
          }
    return success();
  }

  /// What several stages use is said, so that nobody forgets to add up its gradients.
  LogicalResult checkShared() {
    const SmallVector<int64_t> sizes = stageSizes(pipeline);
    const auto needed = sharedTensors(layers, sizes);
    auto text = [](StringRef name, ArrayRef<int64_t> of) {
      std::string all;
      for (int64_t stage : of)
        all += (all.empty() ? "" : ", ") + std::to_string(stage);
      return ("plan.shared \"" + name + "\" stages [" + all + "]").str();
    };
    auto refuseShared = [&](Operation *op, const Twine &message, const std::string &suggestion) {
      InFlightDiagnostic error =
          refuse(op, "plan.shared_mismatch: " + message,
                 "a parameter that layers of several stages read has a line that names them all");
      error.attachNote() << "suggestion: " << suggestion;
      return error;
    };
    for (auto shared : pipeline.getOps<plan::SharedOp>()) {
      auto it =
          llvm::find_if(needed, [&](auto &entry) { return entry.first == shared.getParameter(); });
      if (it == needed.end())
        return refuseShared(shared, "'" + shared.getParameter() + "' is not read by several stages",
                            needed.empty() ? "no such line"
                                           : text(needed[0].first, needed[0].second));
      if (ArrayRef<int64_t>(it->second) != shared.getStages())
        return refuseShared(shared, "'" + shared.getParameter() + "' is read by other stages",
                            text(it->first, it->second));
    }
    for (const auto &[name, of] : needed)
      if (llvm::none_of(pipeline.getOps<plan::SharedOp>(),
                        [&](plan::SharedOp op) { return op.getParameter() == name; }))
        return refuseShared(pipeline, "'" + name + "' is read by several stages", text(name, of));
    return success();
  }

  /// The schedule can be written down.
  LogicalResult checkSize() {
    auto batch = plan::entry<plan::BatchOp>(solution);
    auto layout = plan::entry<plan::LayoutOp>(solution);
    const int64_t share = batch.getGlobal() / axes.ways(layout.getDims(), "batch");
    const int64_t micros = share / batch.getMicro();
    if (PipelineShape{ranks, stages(), micros}.canBeWritten())
      return success();
    InFlightDiagnostic error =
        refuse(batch,
               "plan.microbatches_too_many: " + Twine(micros) + " micro-batches in " +
                   Twine(stages()) + " stages make too long a schedule",
               "stages × micro-batches are at most " + Twine(kMostCells));
    error.attachNote() << "given: global " << batch.getGlobal() << " micro " << batch.getMicro()
                       << ", " << stages() << " stages";
    error.attachNote() << "suggestion: micro " << leastMicroBatch(share, stages());
    return error;
  }

  plan::PipelineOp pipeline;
  plan::SolutionOp solution;
  ModuleOp model;
  plan::AxisTable axes;
  int64_t ranks = 1;
  std::vector<Layer> layers;
};
} // namespace

LogicalResult checkPipeline(plan::PipelineOp pipeline, plan::SolutionOp solution, ModuleOp model) {
  return PipelineChecker(pipeline, solution, model).run();
}

} // namespace cleave

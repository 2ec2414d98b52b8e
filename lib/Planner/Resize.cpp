//===- Resize.cpp - The same layout for a smaller model --------------------===//

#include "cleave/Planner/Resize.h"
#include "lib/Planner/Stages.h"

using namespace mlir;
namespace cleave {

/// Pieces that stand for `pieces`: the fewest that divide what those divide.
static int64_t fewerPieces(int64_t pieces) {
  for (int64_t p = 2; p * p <= pieces; ++p)
    if (pieces % p == 0)
      return p;
  return pieces;
}

/// Pieces of the last kind along `dim`; 1 without a line.
static int64_t piecesAlong(plan::SolutionOp solution, StringRef dim) {
  for (auto chunk : solution.getOps<plan::ChunkOp>())
    for (auto [name, pieces] :
         llvm::zip(chunk.getAlong().getAsValueRange<StringAttr>(), chunk.getPieces()))
      if (name == dim)
        return fewerPieces(pieces);
  return 1;
}

/// Sequences of a smaller micro-batch on one rank: two, where there are two or more in a
/// piece of it.
static int64_t smallMicro(plan::SolutionOp solution) {
  const int64_t pieces = piecesAlong(solution, "batch");
  int64_t before = 1;
  for (auto chunk : solution.getOps<plan::ChunkOp>())
    for (auto [name, count] :
         llvm::zip(chunk.getAlong().getAsValueRange<StringAttr>(), chunk.getPieces()))
      if (name == "batch")
        before = count;
  const int64_t micro = plan::entry<plan::BatchOp>(solution).getMicro();
  return pieces * std::min<int64_t>(micro / before, 2);
}

/// Fewer layers of each stage: none stay none, the fewest become one, others more than that
/// two.
static std::vector<int64_t> fewerLayers(ArrayRef<int64_t> stages) {
  int64_t fewest = 0;
  for (int64_t count : stages)
    if (count > 0 && (fewest == 0 || count < fewest))
      fewest = count;
  std::vector<int64_t> fewer;
  for (int64_t count : stages)
    fewer.push_back(count == 0 ? 0 : count == fewest ? 1 : 2);
  return fewer;
}

/// Layers of each stage that are neither the first nor the last of the model.
static std::vector<int64_t> innerLayers(plan::SolutionOp solution, int64_t all) {
  auto pipeline = plan::entry<plan::PipelineOp>(solution);
  if (!pipeline)
    return {all - 2};
  std::vector<int64_t> stages;
  for (int64_t size : stageSizes(pipeline))
    stages.push_back(size);
  --stages.front();
  --stages.back();
  return stages;
}

PlanDivisions divisionsOf(plan::SolutionOp solution, ModuleOp model, int64_t layers) {
  PlanDivisions divisions;
  const plan::AxisTable axes(solution);
  auto pipeline = plan::entry<plan::PipelineOp>(solution);
  auto batch = plan::entry<plan::BatchOp>(solution);
  auto dims = plan::entry<plan::LayoutOp>(solution).getDims();
  divisions.ways = axes.size(axes.names);
  int64_t places = 1, stages = 1;
  if (pipeline) {
    places = axes.size(axes.expand(pipeline.getAxis()));
    stages = static_cast<int64_t>(stageSizes(pipeline).size());
  }
  divisions.ways /= places;
  divisions.sequence = axes.ways(dims, "sequence") * piecesAlong(solution, "sequence");
  if (auto zigzag = batch.getZigzag())
    divisions.sequence = std::max(divisions.sequence, 2 * axes.size(axes.expand(*zigzag)));
  divisions.vocabulary = divisions.ways * piecesAlong(solution, "vocab");
  const int64_t dealt = axes.ways(dims, "batch");
  divisions.rows = dealt * smallMicro(solution);
  const int64_t micros =
      static_cast<int64_t>(batch.getGlobal()) / dealt / static_cast<int64_t>(batch.getMicro());
  // One more than stages has all that a longer step has: warm-up, steady state, end.
  divisions.microBatches = std::min(micros, stages > 1 ? stages + 1 : int64_t(2));
  auto list = layersOf(model);
  if (list && static_cast<int64_t>(list->size()) == layers + 2)
    divisions.stageLayers = fewerLayers(innerLayers(solution, layers + 2));
  return divisions;
}

/// Deals the layers of `model` out to the stages again.
static void resizeStages(plan::PipelineOp pipeline, ModuleOp model, ArrayRef<int64_t> stageLayers) {
  const std::vector<Layer> layers = *layersOf(model);
  SmallVector<int64_t> sizes(stageLayers);
  ++sizes.front();
  ++sizes.back();
  Builder b(pipeline.getContext());
  ArrayRef<Layer> left = layers;
  for (auto [stage, size] : llvm::zip(pipeline.getOps<plan::StageOp>(), sizes)) {
    SmallVector<StringRef> kinds;
    SmallVector<int64_t> counts;
    for (const Layer &layer : left.take_front(size)) {
      if (kinds.empty() || kinds.back() != layer.kind) {
        kinds.push_back(layer.kind);
        counts.push_back(0);
      }
      ++counts.back();
    }
    left = left.drop_front(size);
    stage.setLayersAttr(b.getStrArrayAttr(kinds));
    stage.setCountsAttr(b.getDenseI64ArrayAttr(counts));
  }
}

void resizePlan(plan::SolutionOp solution, ModuleOp model, int64_t sequence, int64_t global,
                ArrayRef<int64_t> stageLayers) {
  auto batch = plan::entry<plan::BatchOp>(solution);
  const int64_t micro = smallMicro(solution);
  for (auto chunk : solution.getOps<plan::ChunkOp>()) {
    SmallVector<int64_t> pieces;
    for (int64_t count : chunk.getPieces())
      pieces.push_back(fewerPieces(count));
    chunk.setPieces(pieces);
  }
  batch.setMicro(micro);
  batch.setGlobal(global);
  batch.setSequence(sequence);
  if (auto pipeline = plan::entry<plan::PipelineOp>(solution); pipeline && !stageLayers.empty())
    resizeStages(pipeline, model, stageLayers);
}

} // namespace cleave

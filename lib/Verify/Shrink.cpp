//===- Shrink.cpp - A small case of a large one ----------------------------===//

#include "cleave/Verify/Shrink.h"
#include "cleave/Pipelines/Phases.h"
#include "cleave/Planner/Resize.h"
#include "cleave/Support/Sizes.h"
#include <numeric>

using namespace mlir;
namespace cleave {

/// Long enough that rows of a sequence differ, short enough to be cheap.
static constexpr int64_t kLeastSequence = 8;

/// Adds layers to `stages`, in turn to those that have some, until there are `layers`.
static void growTo(std::vector<int64_t> &stages, int64_t layers) {
  int64_t sum = std::accumulate(stages.begin(), stages.end(), int64_t(0));
  const bool none = sum == 0;
  while (sum < layers)
    for (int64_t &count : stages)
      if ((none || count > 0) && sum < layers) {
        ++count;
        ++sum;
      }
}

namespace {
/// What all plans together ask of smaller sizes.
struct Demands {
  frontend::SmallSizes sizes;
  int64_t sequenceWays = 1, global = 1;
  std::vector<PlanDivisions> divisions;
};
} // namespace

static Demands demandsOf(const frontend::ModelDescription &description, ModuleOp model,
                         ArrayRef<ModuleOp> plans) {
  Demands demands;
  bool layersKnown = true;
  for (ModuleOp plan : plans) {
    PlanDivisions d = divisionsOf(solutionOf(plan), model, description.sizes.layers);
    demands.sizes.ways = std::lcm(demands.sizes.ways, d.ways);
    demands.sizes.vocabularyWays = std::lcm(demands.sizes.vocabularyWays, d.vocabulary);
    demands.sequenceWays = std::lcm(demands.sequenceWays, d.sequence);
    demands.global = std::lcm(demands.global, d.rows * d.microBatches);
    layersKnown &= !d.stageLayers.empty();
    demands.sizes.layers = std::max<int64_t>(
        {demands.sizes.layers, 2,
         std::accumulate(d.stageLayers.begin(), d.stageLayers.end(), int64_t(0))});
    demands.divisions.push_back(std::move(d));
  }
  if (!layersKnown)
    demands.sizes.layers = 0;
  return demands;
}

static int64_t microBatchesOf(plan::SolutionOp solution) {
  auto batch = plan::entry<plan::BatchOp>(solution);
  const int64_t ways =
      plan::AxisTable(solution).ways(plan::entry<plan::LayoutOp>(solution).getDims(), "batch");
  return static_cast<int64_t>(batch.getGlobal()) / ways / static_cast<int64_t>(batch.getMicro());
}

rt::StatusOr<SmallCase> shrinkCase(const frontend::ModelDescription &description, ModuleOp model,
                                   ArrayRef<ModuleOp> plans) {
  MLIRContext &context = *model.getContext();
  Demands demands = demandsOf(description, model, plans);
  auto before = plan::entry<plan::BatchOp>(solutionOf(plans[0]));
  const int64_t sequence = before.getSequence(), global = before.getGlobal();
  const int64_t micros = microBatchesOf(solutionOf(plans[0]));
  demands.sizes.sequence = smallerAlike(sequence, demands.sequenceWays, kLeastSequence);
  frontend::ShrunkModel shrunk = frontend::shrinkModel(description, demands.sizes);
  SmallCase small{std::move(shrunk.model), nullptr, std::move(shrunk.changes)};
  small.model = frontend::importModel(small.description, context);
  CLEAVE_RT_RETURN_IF_ERROR(differentiatePhase(*small.model));
  for (auto [plan, division] : llvm::zip(plans, demands.divisions)) {
    plan::SolutionOp solution = solutionOf(plan);
    if (!division.stageLayers.empty())
      growTo(division.stageLayers, small.description.sizes.layers);
    resizePlan(solution, *small.model, demands.sizes.sequence, demands.global,
               demands.sizes.layers > 0 ? ArrayRef<int64_t>(division.stageLayers)
                                        : ArrayRef<int64_t>());
    const plan::AxisTable axes(solution);
    CLEAVE_RT_RETURN_IF_ERROR(withDiagnostics(
        context, [&] { return checkPlan(solution, *small.model, axes.size(axes.names)); }));
  }
  for (auto [key, from, to] :
       {std::tuple("sequence_length", sequence, demands.sizes.sequence),
        std::tuple("global_batch", global, demands.global),
        std::tuple("micro_batches", micros, microBatchesOf(solutionOf(plans[0])))})
    if (from != to)
      small.changes.push_back({key, from, to});
  return small;
}

} // namespace cleave

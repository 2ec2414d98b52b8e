//===- StepModel.cpp - A model on a cluster, for the cost model ----------------===//

#include "StepModel.h"

#include "cleave/Planner/Machines.h"
#include "cleave/Planner/PricePlan.h"
#include "runtime/Base/Machine.h"

#include <fmt/format.h>

namespace cleave::tool {

rt::StatusOr<Cluster> clusterOf(const CompileRequest &request) {
  if (request.cluster)
    return *request.cluster;
  return readCluster("local:1", shareFolder());
}

bool isOurs(const Cluster &cluster) { return cluster.local; }

std::string softwareOf(const Cluster &cluster) {
  return isOurs(cluster) ? "cleave-cpu" : "megatron";
}

std::string noteOfCores(const Cluster &cluster) {
  const int64_t cores = rt::probeMachine().usableCores;
  if (!cluster.local || cluster.ranks() <= cores)
    return "";
  return fmt::format("each of the {} ranks is taken to have a core of its own; on this machine, "
                     "which has {}, a step takes longer",
                     cluster.ranks(), cores);
}

std::string noteOfNetwork(const Cluster &cluster, const cost::Device &device) {
  if (!assumesNetwork(cluster))
    return "";
  return fmt::format("\"levels\" of {} does not say how fast the network between its {} nodes is; "
                     "taken is what {} is described with, {:.4g} GB/s a device",
                     cluster.name, cluster.nodes, device.name,
                     device.network.bandwidth.value / 1e9);
}

std::string noteOfRates(const StepModel &step, const PlanRequest &request) {
  for (const auto &[path, isNarrow] : request.pins.narrow)
    if (const int width = isNarrow ? 16 : 32; !step.device.knowsRateOf(width))
      return fmt::format("how fast {} multiplies in {} is not known (device.rate_unknown): "
                         "precision.{} is priced at the rate of the widest precision that is",
                         step.device.name, isNarrow ? "bf16" : "fp32", path);
  return "";
}

void assumePrecision(CompileRequest &request) {
  if (!request.recipe.precision && request.cluster && !request.cluster->local)
    request.recipe.precision = rt::Precision::Bf16;
}

rt::StatusOr<StepModel> StepModel::of(const CompileRequest &request, mlir::ModuleOp module,
                                      const std::string &software) {
  StepModel model;
  CLEAVE_RT_ASSIGN_OR_RETURN(const Cluster cluster, clusterOf(request));
  CLEAVE_RT_ASSIGN_OR_RETURN(model.device, deviceOf(cluster, shareFolder()));
  CLEAVE_RT_ASSIGN_OR_RETURN(
      model.host,
      cost::readHostProfile(shareFolder(), software.empty() ? softwareOf(cluster) : software));
  const bool isNarrow = request.recipe.precision == rt::Precision::Bf16;
  if (!model.device.knowsRateOf(isNarrow ? 16 : 32))
    return rt::userError("device.rate_unknown", "how fast a device multiplies in fp32 is not known")
        .withGiven("precision=fp32 on " + model.device.name)
        .withRule("its description in share/hardware has a rate or a peak of fp32")
        .suggest("--set precision=bf16");
  auto found = cost::workOf(module);
  if (!found || found->layers.empty())
    return rt::userError("model.ir_invalid", "the module has no layers that can be planned")
        .at({request.modelPath, 0, 0})
        .withRule("@forward calls the layers of an .mlir model in order")
        .suggest("`cleave compile CONFIG --emit=nn -o model.mlir` writes one");
  model.work = std::move(*found);
  cost::setWidths(model.work,
                  [&](const std::string &path) { return pinnedWidth(path, request.plan); });
  model.limits = limitsOf(module);
  return model;
}

SearchProblem StepModel::problemOf(const CompileRequest &request) const {
  const auto cluster = clusterOf(request);
  const bool isLimited = cluster.ok() && !request.allowOverBudget;
  return {work,
          device,
          host,
          limits,
          request.plan,
          {},
          isLimited ? usableMemory(*cluster) : 0,
          cluster.ok() ? cluster->devicesPerNode : 1};
}

std::optional<PricedChoice> StepModel::priceOf(const CompileRequest &request,
                                               plan::SolutionOp solution) const {
  SearchProblem problem = problemOf(request);
  auto batch = plan::entry<plan::BatchOp>(solution);
  problem.request.globalBatch = batch.getGlobal();
  problem.request.sequence = batch.getSequence();
  problem.request.narrow = precisionOf(solution) == rt::Precision::Bf16;
  return cleave::priceOf(problem, solution);
}

} // namespace cleave::tool

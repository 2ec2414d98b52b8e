//===- StepModel.h - A model on a cluster, for the cost model ------------------===//
//
// What the cost model is asked with: operators' work, the device of each rank, and the
// software that runs a step. `plan` and `explain` search with it, `compile` too, and it
// prices plans that were not searched for.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "CompileRequest.h"
#include "cleave/Planner/Search.h"

namespace cleave::tool {

struct StepModel {
  cost::ModelWork work;
  cost::Device device;
  cost::HostProfile host;
  ModelLimits limits;

  /// Of `module`, in nn, on the request's cluster (without one: one local rank). `software` is
  /// a file of share/hosts; empty: what `softwareOf` says. Errors: `device.*`, `host.*`, and
  /// `model.ir_invalid` for a module without layers.
  static rt::StatusOr<StepModel> of(const CompileRequest &request, mlir::ModuleOp module,
                                    const std::string &software = "");

  /// What is searched for `request`. The problem refers to this object.
  SearchProblem problemOf(const CompileRequest &request) const;

  /// A step of `solution`, which need not have been searched for; nothing where it is none of the
  /// search's space.
  std::optional<PricedChoice> priceOf(const CompileRequest &request,
                                      plan::SolutionOp solution) const;
};

/// What a prediction for more local ranks than this machine has cores leaves out; else nothing.
std::string noteOfCores(const Cluster &cluster);

/// Where the speed of the network between nodes is the device's and not the cluster's; else
/// nothing.
std::string noteOfNetwork(const Cluster &cluster, const cost::Device &device);

/// Where a pin of precision.PATH has a rate that the device's description lacks; else nothing.
std::string noteOfRates(const StepModel &step, const PlanRequest &request);

/// The cluster of a request: without one, one local rank.
rt::StatusOr<Cluster> clusterOf(const CompileRequest &request);
/// Whether what this version emits runs on the devices of `cluster`.
bool isOurs(const Cluster &cluster);
/// The software that runs on `cluster`: ours where that can be, else megatron.
std::string softwareOf(const Cluster &cluster);
/// Precision left out is bf16 on devices of a preset or a file, and fp32 on local ranks.
void assumePrecision(CompileRequest &request);

} // namespace cleave::tool

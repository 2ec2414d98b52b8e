//===- LayOut.h - What a rank of a program allocates ---------------------------===//
//
// Lowers layouts of a model to `exec` and reads off what a rank allocates: what the planner is
// handed for clusters that this version emits programs for. No kernel is compiled, and what the
// model is lowered to is dropped.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Pipelines/Phases.h"
#include "cleave/Planner/Search.h"

#include <map>

namespace cleave {

/// The segments of the programs in `module`, which is in exec.
LaidOutMemory memoryOf(mlir::ModuleOp module);

class ExecLayouter : public MemoryLayouter {
public:
  /// Of `model`, in grad, which stays as it is; batch and precision are those of `request`.
  ExecLayouter(mlir::ModuleOp model, const PlanRequest &request, const OptimizerSettings &optimizer,
               const cpu::Profile &profile)
      : model(model), request(request), optimizer(optimizer), profile(profile) {}

  std::optional<LaidOutMemory> layOut(const PricedChoice &found) override;
  /// Under a plan that is checked for the model.
  std::optional<LaidOutMemory> layOut(mlir::ModuleOp plan);

private:
  mlir::ModuleOp model;
  const PlanRequest request;
  const OptimizerSettings optimizer;
  const cpu::Profile profile;
  /// By choice and sizes of stages.
  std::map<std::pair<Choice, std::vector<int64_t>>, std::optional<LaidOutMemory>> known;
};

/// Pins all that `found` says; what a choice does not say stays as it is.
void fixChoice(PlanRequest &request, const PricedChoice &found);

} // namespace cleave

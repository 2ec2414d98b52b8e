//===- PlanPasses.cpp - Plans written and checked inside a module ----------===//

#include "cleave/Planner/Passes.h"
#include "cleave/Planner/Planner.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_CHECKPLANPASS
#define GEN_PASS_DEF_WRITEPLANPASS
#include "lib/Planner/Passes.h.inc"

/// The error as a diagnostic at `op`: "kind: message", the rest as notes.
static LogicalResult report(Operation *op, const rt::Error &error) {
  InFlightDiagnostic d = op->emitError() << error.kind << ": " << error.message;
  if (!error.given.empty())
    d.attachNote() << "given: " << error.given;
  if (!error.rule.empty())
    d.attachNote() << "rule: " << error.rule;
  for (const std::string &suggestion : error.suggestions)
    d.attachNote() << "try: " << suggestion;
  return d;
}

/// Puts the plan for `request` at the end of `module`, in place of an old one.
static LogicalResult writePlan(ModuleOp module, const PlanRequest &request) {
  if (llvm::none_of(module.getOps<func::FuncOp>(),
                    [](func::FuncOp f) { return f->hasAttr("nn.kind"); }))
    return module.emitError("has no kind of layer to plan: no function with 'nn.kind'");
  auto plan = planFromPins(module, request);
  if (!plan.ok())
    return report(module, plan.status().error());
  for (auto old : llvm::to_vector(module.getOps<plan::SolutionOp>()))
    old.erase();
  auto solution = *(*plan)->getOps<plan::SolutionOp>().begin();
  solution->moveBefore(module.getBody(), module.getBody()->end());
  return success();
}

namespace {
struct WritePlanPass : impl::WritePlanPassBase<WritePlanPass> {
  using WritePlanPassBase::WritePlanPassBase;

  void runOnOperation() override {
    auto parsed = parsePins(pins);
    if (!parsed.ok()) {
      (void)report(getOperation(), parsed.status().error());
      return signalPassFailure();
    }
    if (failed(writePlan(getOperation(), {ranks, sequence, globalBatch, *parsed, cluster})))
      signalPassFailure();
  }
};

struct CheckPlanPass : impl::CheckPlanPassBase<CheckPlanPass> {
  using CheckPlanPassBase::CheckPlanPassBase;

  void runOnOperation() override {
    auto plans = llvm::to_vector(getOperation().getOps<plan::SolutionOp>());
    if (plans.size() != 1) {
      getOperation().emitError() << "holds " << plans.size() << " plans; one plan.solution is "
                                 << "checked";
      return signalPassFailure();
    }
    if (failed(checkPlan(plans.front(), getOperation(), ranks)))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace

} // namespace cleave

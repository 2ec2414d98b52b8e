//===- ApplyPlanPass.cpp - A plan inside a module, carried out -------------===//

#include "cleave/Transforms/ApplyPlan/ApplyPlan.h"
#include "cleave/Transforms/ApplyPlan/Passes.h"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_APPLYPLANPASS
#include "lib/Transforms/ApplyPlan/Passes.h.inc"

namespace {
struct ApplyPlanPass : impl::ApplyPlanPassBase<ApplyPlanPass> {
  using ApplyPlanPassBase::ApplyPlanPassBase;

  void runOnOperation() override {
    auto plans = llvm::to_vector(getOperation().getOps<plan::SolutionOp>());
    if (plans.size() != 1) {
      getOperation().emitError() << "holds " << plans.size()
                                 << " plans; cleave-apply needs one plan.solution";
      return signalPassFailure();
    }
    OptimizerSettings optimizer{beta1, beta2, eps, weightDecay, std::nullopt};
    if (clipNorm > 0)
      optimizer.clipNorm = clipNorm;
    if (failed(applyPlan(getOperation(), plans.front(), optimizer)))
      return signalPassFailure();
    plans.front().erase();
  }
};
} // namespace

} // namespace cleave

//===- PricePlan.cpp - What a plan at hand takes -----------------------------===//

#include "cleave/Planner/PricePlan.h"
#include "cleave/Analysis/Dear.h"
#include "llvm/ADT/StringSet.h"

namespace cleave {

std::vector<int64_t> stageBeginsOf(plan::SolutionOp solution) {
  auto pipeline = plan::entry<plan::PipelineOp>(solution);
  if (!pipeline)
    return {};
  std::vector<int64_t> begins = {0};
  for (auto stage : pipeline.getOps<plan::StageOp>()) {
    int64_t size = 0;
    for (int64_t count : stage.getCounts())
      size += count;
    begins.push_back(begins.back() + size);
  }
  return begins;
}

PricedChoice priceWithStages(const SearchProblem &problem, const Choice &choice,
                             const std::vector<int64_t> &stageBegins) {
  PricedChoice priced = price(problem, choice);
  if (stageBegins.empty() || stageBegins == priced.prediction.stageBegins)
    return priced;
  cost::Layout layout = layoutOf(problem, choice);
  layout.stageBegins = stageBegins;
  cost::HostProfile host = problem.host;
  host.overlapsData &= choice.overlap;
  priced.prediction = cost::predict(problem.work, problem.device, host, layout);
  return priced;
}

std::optional<PricedChoice> priceOf(const SearchProblem &problem, plan::SolutionOp solution) {
  const Choice choice = choiceOf(solution);
  if (brokenRule(problem, choice))
    return std::nullopt;
  return priceWithStages(problem, choice, stageBeginsOf(solution));
}

std::string keptOtherwise(plan::SolutionOp solution, mlir::ModuleOp model) {
  if (choiceOf(solution).recompute != Recompute::Selective)
    return "";
  for (auto recompute : solution.getOps<plan::RecomputeOp>()) {
    auto kind = model.lookupSymbol<mlir::func::FuncOp>(recompute.getKind());
    llvm::StringSet<> kept;
    kept.insert_range(recompute.getSaved().getAsValueRange<mlir::StringAttr>());
    const auto dear = kind ? dearPaths(kind) : llvm::SmallVector<llvm::StringRef>();
    if (kept.size() != dear.size() ||
        llvm::any_of(dear, [&](llvm::StringRef path) { return !kept.contains(path); }))
      return recompute.getKind().str();
  }
  return "";
}

} // namespace cleave

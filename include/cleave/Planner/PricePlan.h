//===- PricePlan.h - What a plan at hand takes --------------------------------===//
//
// A plan that was written or edited by somebody, priced as the search prices its own: as
// far as pins can say it, with the stages that it has.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Planner/Search.h"
#include "dialects/Plan/Plan.h"

namespace cleave {

/// The layers at which the stages of `solution` begin, and their number; empty without a
/// pipeline.
std::vector<int64_t> stageBeginsOf(plan::SolutionOp solution);

/// `price`, with stages that begin at `stageBegins` unless that is empty.
PricedChoice priceWithStages(const SearchProblem &problem, const Choice &choice,
                             const std::vector<int64_t> &stageBegins);

/// The price of `solution`, whose ranks, batch and precision are those of `problem`; nothing
/// where its choice breaks a rule of the space.
std::optional<PricedChoice> priceOf(const SearchProblem &problem, plan::SolutionOp solution);

/// A kind of which `solution` keeps other paths than its value of `recompute` does; empty if there
/// is none. It is priced as if it kept those.
std::string keptOtherwise(plan::SolutionOp solution, mlir::ModuleOp model);

} // namespace cleave

//===- Infeasible.cpp - Why a request has no plan, and what would help --------===//

#include "PlanReport.h"

#include "cleave/Pipelines/Phases.h"
#include "cleave/Planner/Machines.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

namespace cleave::tool {

/// Whether a refusal of the policy holds for all that a search may choose: it says nothing where
/// its cause is a value that the policy chose by itself.
static bool isAboutPins(const rt::Error &error, const PlanRequest &request) {
  const Pins &pins = request.pins;
  if (error.kind == "plan.batch_indivisible")
    return pins.dp || (pins.tp && pins.cp && pins.pp);
  if (error.kind == "plan.heads_indivisible")
    return pins.tp.has_value();
  if (error.kind == "plan.bad_pin")
    return pins.pp || (!pins.schedule && pins.vp.value_or(1) == 1);
  if (error.kind != "plan.ranks_mismatch")
    return true;
  int64_t left = request.ranks;
  for (const std::optional<int64_t> &pin : {pins.dp, pins.cp, pins.tp, pins.pp}) {
    if (left % pin.value_or(1) != 0)
      return true;
    left /= pin.value_or(1);
  }
  return pins.dp && pins.cp && pins.tp && pins.pp;
}

/// The cluster with as few times its nodes as hold the model, where there is one.
static std::string moreRanks(const SearchProblem &problem, const Cluster &cluster) {
  SearchProblem larger = problem;
  for (int64_t times = 2; times <= 64 && !cluster.local; times *= 2) {
    larger.request.ranks = problem.request.ranks * times;
    const auto smallest = smallestChoice(larger, problem.memory);
    if (!smallest || smallest->bytes > problem.memory)
      continue;
    const std::string preset = cluster.name.substr(0, cluster.name.find(':'));
    const int64_t nodes = cluster.nodes * times;
    return fmt::format("{}, whose {} ranks hold it",
                       preset.size() < cluster.name.size()
                           ? fmt::format("--cluster {}:{}", preset, nodes)
                           : fmt::format("\"nodes\": {} in the cluster's file", nodes),
                       larger.request.ranks);
  }
  return problem.request.pins.microBatch ? "more ranks, or a smaller micro_batch" : "more ranks";
}

rt::Error infeasibleError(mlir::ModuleOp module, const SearchProblem &problem,
                          const Cluster &cluster) {
  SearchProblem unlimited = problem;
  unlimited.memory = 0;
  std::optional<rt::Error> ofPins;
  if (problem.bans.empty() && !smallestChoice(unlimited, std::numeric_limits<double>::max()))
    if (auto plan = planPhase(module, problem.request); !plan.ok())
      ofPins = plan.status().error();
  if (ofPins && isAboutPins(*ofPins, problem.request))
    return *ofPins;
  const Infeasible why = explainInfeasible(problem);
  if (ofPins && why.conflict.empty())
    return *ofPins;
  std::string message = "no layout meets the request";
  if (why.smallest && problem.memory > 0 && why.smallest->bytes > problem.memory)
    message = fmt::format("no layout fits: the least memory of a rank is {:.0f} bytes ({}), a rank "
                          "has {:.0f}",
                          why.smallest->bytes, gigabytes(why.smallest->bytes), problem.memory);
  rt::Error error =
      rt::userError("plan.infeasible", message)
          .withGiven(fmt::format("{}", fmt::join(why.conflict, ", ")))
          .withRule(why.rules.empty()
                        ? "pins, bans and the memory of a device leave at least one layout"
                        : fmt::format("{}", fmt::join(why.rules, "; ")));
  for (const Relaxation &r : why.relaxations)
    error.suggestions.push_back(fmt::format("{}: {} ({:.4g} s a step)", r.text,
                                            pinTextOf(problem, r.best.choice), r.best.seconds()));
  const bool isLarge = llvm::is_contained(why.conflict, "memory");
  if (why.smallest && isLarge) {
    const double needed = std::ceil(memoryWith(cluster, why.smallest->bytes));
    error.suggestions.push_back(
        cluster.local
            ? fmt::format("ranks with {}: {}", gigabytes(needed), textOf(why.smallest->choice))
            : fmt::format("devices with {} (\"device_memory\": {:.0f} in the cluster's "
                          "file): {}",
                          gigabytes(needed), needed, textOf(why.smallest->choice)));
  }
  if (isLarge)
    error.suggestions.push_back(moreRanks(problem, cluster));
  if (error.suggestions.empty())
    error.suggestions.push_back(
        fmt::format("leave out {}, and ask again: what else is asked cannot hold together either",
                    fmt::join(why.conflict, ", ")));
  for (const std::string &member : why.conflict)
    error.notes.push_back({{}, "in conflict: " + member});
  return error;
}

} // namespace cleave::tool

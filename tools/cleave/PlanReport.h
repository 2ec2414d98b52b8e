//===- PlanReport.h - A plan in words and numbers -----------------------------===//
//
// What `cleave plan` and `cleave explain` say of what the search found, as text and as JSON.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "PlanTask.h"
#include "cleave/Planner/Relax.h"
#include "cleave/Planner/Run.h"
#include "runtime/Base/Json.h"

#include <utility>

namespace cleave::tool {

/// A layout that was asked for beside the one that was found.
struct ComparedChoice {
  /// The pins of the question.
  std::string pins;
  /// The best under them, where there is one.
  std::optional<PricedChoice> best;
  /// Why there is none: the smallest conflict, and the least memory under these pins.
  std::optional<Infeasible> obstacle;
};

/// For each set of pins of `text`, which semicolons part, the best under them, or why there is
/// none. `timeLimit`: seconds for all of them, 0: none. Errors: those of pins.
rt::StatusOr<std::vector<ComparedChoice>> compareWith(PlanTask &task, const std::string &text,
                                                      double timeLimit = 0);

/// One field of a plan, and what it would take to have another value in it.
struct Decision {
  std::string field, value;
  /// Whether the value is what the field has where nothing is decided.
  bool isNeutral = false;
  /// The best plan without the value.
  std::optional<PricedChoice> other;
  /// Where nothing fits without it, the bytes that a rank needs at least.
  std::optional<double> needs;
};

/// The plan that `explain` was given, as it is now.
struct PlanAtHand {
  /// A kind that keeps other paths than it is priced with; empty: none.
  std::string keptOtherwise;
  /// Why it is none of those that are searched.
  std::optional<std::string> broken;
  std::optional<PricedChoice> priced;
  bool isBest = false;
};

struct PlanReport {
  const PlanTask &task;
  const SearchResult &result;
  /// Layouts of the space, and seconds that the search took.
  int64_t space = 0;
  double spent = 0;
  std::vector<ComparedChoice> compared;
  /// Of `explain`.
  std::vector<Decision> decisions = {};
  std::optional<PlanAtHand> atHand = {};
  /// Numbers of nodes that were compared, where the cost is what counts.
  std::vector<int64_t> nodesTried = {};

  const PricedChoice &best() const { return result.best.front(); }
};

/// What the prediction takes for granted of these machines.
std::vector<std::string> notesOf(const PlanReport &report);

/// "12.3 GB"
std::string gigabytes(double bytes);

/// Names of the parts of a step, and their times; they add up to it.
std::vector<std::pair<const char *, double>> partsOf(const cost::Prediction &prediction);

/// Of a parameter: fp32 weights and moments and an fp32 gradient, and bf16 weights beside them.
inline double bytesOfState(bool narrow) { return narrow ? 18 : 16; }
/// What a checkpoint has of it: fp32 weights and moments.
inline double bytesOfCheckpoint() { return 12; }

/// Numbers of ranks, at most those of the plan, that keep batch, micro-batch and all degrees but
/// dp, with the micro-batches of a step.
std::vector<std::pair<int64_t, int64_t>> otherRanksOf(const PlanReport &report);

/// Of the recipe's tokens.
RunFacts runFactsOf(const PlanReport &report);

std::string planText(const PlanReport &report);
void writePlanJson(rt::JsonWriter &out, const PlanReport &report);

/// The layouts of `choices` with the time of each part, the first as what the others are compared
/// with.
std::string choicesText(const std::vector<const PricedChoice *> &choices);
std::string comparedText(const PlanReport &report);

/// `plan.infeasible` with the conflict, the least memory and what would help; where pins alone
/// leave no layout, what `compile` says of them.
rt::Error infeasibleError(mlir::ModuleOp module, const SearchProblem &problem,
                          const Cluster &cluster);

} // namespace cleave::tool

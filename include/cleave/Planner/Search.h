//===- Search.h - The best layout of a step ----------------------------------===//
//
// All layouts that pins can say and that can be carried out, priced by the cost
// model. The search looks at them best first: a layout is not looked at closely
// before its lower bound is the lowest of all that are left, and the search ends
// when the bounds of all that are left are above what was found. What it finds is
// then the best of the space, and if it is stopped earlier it says how far off the
// best can be at most.
//
//     family     degrees and their order, sp,             bound of the work, in a huge micro-batch
//                vocabulary, recomputation
//     group      × micro-batch                            bound of the work; a bound of memory
//     pipeline   × schedule and stages                    with the wait for stages; memory but
//                                                         for shared state
//     layout     × who shares state, overlap              with exchanges; all memory
//                                                         → prediction
//
// The search never sees a device or a model's name: it asks operators' work
// (`cost::ModelWork`), a description of hardware and one of software. The same
// problem gives the same answer.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/Prediction.h"
#include "cleave/Planner/Choice.h"
#include "cleave/Planner/LaidOut.h"
#include "cleave/Planner/Planner.h"
#include <functional>
#include <limits>
#include <map>
#include <memory>

namespace cleave {

/// What layouts of a model must fit.
struct ModelLimits {
  int64_t keyHeads = 0, groups = 1, experts = 0;
  /// Rows of products with experts for each token.
  int64_t choices = 1;
  /// Sizes that the tensor axis cuts; none of its ranks may be left without elements.
  std::vector<int64_t> tensorSizes, vocabularySizes;
};
ModelLimits limitsOf(mlir::ModuleOp model);

/// What matrix products multiply and what is gathered of a shared parameter, where software is
/// compared that has widths which plans do not say.
struct Operands {
  cost::Width width = 16;
  bool blockScaled = false;
  cost::Bytes gathered{2};
};

struct SearchProblem {
  const cost::ModelWork &work;
  const cost::Device &device;
  const cost::HostProfile &host;
  ModelLimits limits;
  /// Ranks, batch, precision, and what is pinned.
  PlanRequest request;
  std::vector<Ban> bans;
  /// Bytes of one rank; 0: no limit.
  double memory = 0;
  /// Ranks of one host: state may be shared inside of one.
  int64_t ranksOfNode = 1;
  /// Nothing: those of the request.
  std::optional<Operands> operands = std::nullopt;
  /// The orders of axes that the software has; empty: all.
  std::vector<cost::AxisOrder> orders = {};
  /// The software that is compared deals experts out over neighbours, whatever the context's ranks.
  bool foldsExperts = false;
  /// Layouts that do not fit when they are laid out, and the bytes of a rank then.
  std::map<Choice, double> putAside = {};
  /// By this part the formula may be above what the target will lay out: as much too large is not
  /// left out.
  double formulaAbove = 0;

  /// The limit for what the formula says.
  double formulaLimit() const { return memory * (1 + formulaAbove); }
  /// Whether a layout fits, as far as it is known.
  bool fits(const Choice &choice, double formula) const {
    const auto known = putAside.find(choice);
    return memory <= 0 ||
           (known == putAside.end() ? formula <= formulaLimit() : known->second <= memory);
  }
  /// These, else those of the formula.
  double bytesOf(const Choice &choice, double formula) const {
    const auto known = putAside.find(choice);
    return known == putAside.end() ? formula : known->second;
  }
};

/// A layout with its price.
struct PricedChoice {
  Choice choice;
  cost::Prediction prediction;
  /// By the target; absent: the prediction's formula holds.
  std::optional<LaidOutMemory> laidOut = {};

  double seconds() const { return prediction.step.value; }
  /// Of the fullest rank.
  double bytes() const {
    return laidOut ? static_cast<double>(laidOut->bytes()) : prediction.memory.sum().value;
  }
  /// Layers of each stage.
  std::vector<int64_t> stageSizes() const;
};

/// The cost model's layout of a choice, stages left open.
cost::Layout layoutOf(const SearchProblem &problem, const Choice &choice);
/// One choice that can be carried out, priced; stages as the search deals them out.
PricedChoice price(const SearchProblem &problem, const Choice &choice);

/// The pins that leave `choice` alone, and those of the request that choices don't have: pasted
/// into the same request they find it again. Left out is what can be no other beside the rest.
std::string pinTextOf(const SearchProblem &problem, const Choice &choice);

/// Why `choice` cannot be carried out, as a rule; nothing where it can.
std::optional<std::string> brokenRule(const SearchProblem &problem, const Choice &choice);

struct SearchOptions {
  /// How many of the best to report.
  size_t top = 1;
  /// Report what no other layout beats in both time and memory.
  bool pareto = false;
  /// Seconds; 0: none. The only thing that may make two answers differ.
  double timeLimit = 0;
  /// Seconds of a step above which a layout is of no interest: then nothing may be found.
  double atMost = std::numeric_limits<double>::infinity();
};

struct SearchCounts {
  /// Families of layouts, sets of these and layouts that were bounded, and layouts that were
  /// predicted.
  int64_t families = 0, bounded = 0, predicted = 0;
  /// Of those that were bounded, how many do not fit in memory.
  int64_t tooLarge = 0;
  /// Those that were the best and, laid out, do not fit.
  int64_t putAside = 0;
};

struct SearchResult {
  /// The best ones, best first; empty where nothing fits.
  std::vector<PricedChoice> best;
  /// By time, where it was asked for.
  std::vector<PricedChoice> pareto;
  /// No layout takes less, among those that fit.
  double bound = 0;
  /// The search looked at all that could be better.
  bool complete = false;
  /// The time was up before one that fits was laid out: the best fits by the formula, if there is
  /// one.
  bool isByFormulaAlone = false;
  SearchCounts counts;

  /// How much faster the best of the space can be than what was found, in parts.
  double gap() const { return best.empty() ? 0 : 1 - bound / best.front().seconds(); }
};

/// Is told what a search does; all does nothing by default.
class SearchObserver {
public:
  virtual ~SearchObserver() = default;
  /// `counts` so far, the best time found (0: none), and the lowest bound of what is left.
  virtual void onProgress(const SearchCounts &, double /*best*/, double /*bound*/) {}
  virtual void onBetter(const PricedChoice &) {}
  virtual void onPredicted(const PricedChoice &) {}
};

SearchResult search(const SearchProblem &problem, const SearchOptions &options = {},
                    SearchObserver *observer = nullptr);

/// The same with the best ones laid out by the target. One that does not fit is put aside (in
/// `problem`, so that what is asked of it later knows) and the next one taken. What the formula
/// holds too large by more than its error is never laid out. At the time limit the last layout is
/// still finished; where none fits by then, the answer is by the formula.
SearchResult searchLaidOut(SearchProblem &problem, MemoryLayouter &layouter,
                           const SearchOptions &options = {}, SearchObserver *observer = nullptr);

/// All choices of the space that satisfy pins and bans, in order.
void forEachChoice(const SearchProblem &problem, const std::function<void(const Choice &)> &visit);
/// How many they are, without making them one by one.
int64_t countChoices(const SearchProblem &problem);

/// Where a layout stands among all that fit.
struct Standing {
  /// Layouts of the space, those that were looked at, and those of these that fit.
  int64_t space = 0, drawn = 0, feasible = 0;
  /// Of the feasible ones, how many take less than was asked for.
  int64_t faster = 0;
};
/// Counts the layouts that take less than `seconds`: all of them, where the space has no
/// more than `mostDrawn`; else `mostDrawn` that are drawn at random, each with the same chance and
/// the same ones each time, or fewer where `mostFeasible` of them fit earlier. `space` counts
/// layouts before bans.
Standing standingOf(const SearchProblem &problem, double seconds, int64_t mostDrawn,
                    int64_t mostFeasible);

/// Whether there are places that differ: all ranks of one domain and host are alike.
bool hasPlaces(const SearchProblem &problem);

/// The search by predicting every choice: for small problems, and to test the search with.
SearchResult searchAll(const SearchProblem &problem, const SearchOptions &options = {});

} // namespace cleave

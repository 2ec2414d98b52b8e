//===- LaidOutSearch.cpp - The best layout that really fits ------------------===//

#include "cleave/Planner/Search.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <chrono>

namespace cleave {

/// Over layouts of four golden models in fp32 and bf16 the formula was at most 0.12 above what
/// programs take (test/Cases/memory.py).
static constexpr double kFormulaAbove = 0.15;

/// The time is up: what fits by the formula, and was not laid out. `allowed`: what the search found
/// where the formula may be too large.
static SearchResult bestByFormula(SearchProblem &problem, SearchOptions options,
                                  const SearchResult &allowed, SearchObserver *observer) {
  problem.formulaAbove = 0;
  // As soon as there is one.
  options.timeLimit = 1e-3;
  SearchResult result = search(problem, options, observer);
  result.complete = false;
  result.isByFormulaAlone = true;
  result.bound = std::min(result.bound, allowed.bound);
  return result;
}

SearchResult searchLaidOut(SearchProblem &problem, MemoryLayouter &layouter,
                           const SearchOptions &options, SearchObserver *observer) {
  // What is no one's best is not laid out, so that a front is of what fits by the formula.
  problem.formulaAbove = options.pareto ? 0 : kFormulaAbove;
  // One limit for all searches and what is laid out between them.
  const auto start = std::chrono::steady_clock::now();
  const auto left = [&] {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    return options.timeLimit - spent.count();
  };
  const auto isLate = [&] { return options.timeLimit > 0 && left() <= 0; };
  const auto fits = [&](const PricedChoice &found) {
    return problem.memory <= 0 || found.bytes() <= problem.memory;
  };
  SearchOptions limited = options;
  // One is laid out however little time there is.
  for (bool isFirst = true;; isFirst = false) {
    if (options.timeLimit > 0)
      limited.timeLimit = std::max(left(), 1e-3);
    SearchResult result = search(problem, limited, observer);
    bool isPutAside = false, isBestKnown = result.best.empty();
    for (PricedChoice &found : result.best) {
      const bool isBest = &found == &result.best.front();
      // Of those that are not laid out any more the formula's memory is told.
      if (isLate() && !(isBest && isFirst))
        break;
      found.laidOut = layouter.layOut(found);
      isPutAside = !fits(found);
      isBestKnown |= isBest && !isPutAside;
      if (!isPutAside)
        continue;
      problem.putAside[found.choice] = found.bytes();
      // What comes behind it may be another when this one is gone.
      break;
    }
    if (isPutAside && !isLate())
      continue;
    if (!isBestKnown && problem.memory > 0)
      result = bestByFormula(problem, options, result, observer);
    // Those that were not laid out any more fit by the formula, or are not known to fit.
    llvm::erase_if(result.best, [&](const PricedChoice &found) { return !fits(found); });
    result.counts.putAside = static_cast<int64_t>(problem.putAside.size());
    return result;
  }
}

} // namespace cleave

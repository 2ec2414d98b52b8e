//===- LaidOutSearch.cpp - The best layout that really fits ------------------===//

#include "cleave/Planner/Search.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <chrono>

namespace cleave {

/// Over layouts of four golden models in fp32 and bf16 the formula was at most 0.12 above what
/// programs take (test/Cases/memory.py).
static constexpr double kFormulaAbove = 0.15;

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
  SearchOptions limited = options;
  for (;;) {
    if (options.timeLimit > 0)
      limited.timeLimit = std::max(left(), 1e-3);
    SearchResult result = search(problem, limited, observer);
    bool isPutAside = false;
    for (PricedChoice &found : result.best) {
      // Of those behind the best the formula's memory is told then.
      if (&found != &result.best.front() && options.timeLimit > 0 && left() <= 0)
        break;
      found.laidOut = layouter.layOut(found);
      if (problem.memory <= 0 || found.bytes() <= problem.memory)
        continue;
      problem.putAside[found.choice] = found.bytes();
      isPutAside = true;
      // What comes behind it may be another when this one is gone.
      break;
    }
    if (isPutAside)
      continue;
    // Those that were not laid out any more fit by the formula, or are not known to fit.
    llvm::erase_if(result.best, [&](const PricedChoice &found) {
      return problem.memory > 0 && found.bytes() > problem.memory;
    });
    result.counts.putAside = static_cast<int64_t>(problem.putAside.size());
    return result;
  }
}

} // namespace cleave

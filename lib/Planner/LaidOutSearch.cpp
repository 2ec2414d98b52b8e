//===- LaidOutSearch.cpp - The best layout that really fits ------------------===//

#include "cleave/Planner/Search.h"

#include <algorithm>
#include <chrono>

namespace cleave {

SearchResult searchLaidOut(SearchProblem &problem, MemoryLayouter &layouter,
                           const SearchOptions &options, SearchObserver *observer) {
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
      if (!found.laidOut || problem.memory <= 0 || found.bytes() <= problem.memory)
        continue;
      problem.putAside[found.choice] = found.bytes();
      isPutAside = true;
      // What comes behind it may be another when this one is gone.
      break;
    }
    if (isPutAside)
      continue;
    result.counts.putAside = static_cast<int64_t>(problem.putAside.size());
    return result;
  }
}

} // namespace cleave

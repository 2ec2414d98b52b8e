//===- LaidOutSearch.cpp - The best layout that really fits ------------------===//

#include "cleave/Planner/Search.h"
#include <algorithm>
#include <chrono>

namespace cleave {

SearchResult searchLaidOut(SearchProblem &problem, MemoryLayouter &layouter,
                           const SearchOptions &options, SearchObserver *observer) {
  const auto start = std::chrono::steady_clock::now();
  SearchOptions left = options;
  for (;;) {
    SearchResult result = search(problem, left, observer);
    bool isPutAside = false;
    for (PricedChoice &found : result.best) {
      found.laidOut = layouter.layOut(found);
      if (!found.laidOut || problem.memory <= 0 || found.bytes() <= problem.memory)
        continue;
      problem.putAside[found.choice] = found.bytes();
      isPutAside = true;
      // What comes behind it may be another when this one is gone.
      break;
    }
    if (isPutAside) {
      // One limit for all of them.
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      if (options.timeLimit > 0)
        left.timeLimit = std::max(options.timeLimit - spent.count(), 1e-3);
      continue;
    }
    result.counts.putAside = static_cast<int64_t>(problem.putAside.size());
    return result;
  }
}

} // namespace cleave

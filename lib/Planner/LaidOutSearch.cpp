//===- LaidOutSearch.cpp - The best layout that really fits ------------------===//

#include "cleave/Planner/Search.h"

namespace cleave {

SearchResult searchLaidOut(SearchProblem &problem, MemoryLayouter &layouter,
                           const SearchOptions &options, SearchObserver *observer) {
  for (;;) {
    SearchResult result = search(problem, options, observer);
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
    if (isPutAside)
      continue;
    result.counts.putAside = static_cast<int64_t>(problem.putAside.size());
    return result;
  }
}

} // namespace cleave

//===- Standing.cpp - Where a layout stands among all that fit ---------------===//

#include "cleave/Planner/Search.h"
#include "lib/Planner/Pricing.h"
#include "lib/Planner/SearchSpace.h"
#include <algorithm>
#include <random>

namespace cleave {

namespace {

class Counter {
public:
  Counter(const SearchProblem &problem, double seconds, int64_t mostFeasible)
      : problem(problem), seconds(seconds), mostFeasible(mostFeasible), space(problem),
        pricing(problem) {
    space.families([&](const Choice &family) {
      families.push_back({family, space.sizeOf(family), standing.space});
      standing.space += families.back().size.layouts();
    });
  }

  Standing run(int64_t mostDrawn) {
    if (standing.space <= mostDrawn) {
      space.all([&](const Choice &choice) { look(choice); });
      return standing;
    }
    // One seed, and no distribution of the library, which may differ from another's.
    std::mt19937_64 random(20261201);
    for (int64_t i = 0; i < mostDrawn && standing.feasible < mostFeasible; ++i)
      if (const Choice choice = at(static_cast<int64_t>(random() % standing.space));
          space.isAllowed(choice))
        look(choice);
    return standing;
  }

private:
  struct Family {
    Choice choice;
    SearchSpace::FamilySize size;
    /// The layouts of all families before.
    int64_t before;
  };

  Choice at(int64_t number) const {
    const auto family =
        std::prev(std::upper_bound(families.begin(), families.end(), number,
                                   [](int64_t n, const Family &f) { return n < f.before; }));
    return space.at(family->choice, family->size, number - family->before);
  }

  void look(const Choice &choice) {
    ++standing.drawn;
    if (problem.memory > 0 && pricing.memoryOf(choice, problem.memory) > problem.memory)
      return;
    ++standing.feasible;
    // Most need not be played out.
    if (pricing.bound(choice) < seconds && pricing.price(choice).seconds() < seconds)
      ++standing.faster;
  }

  const SearchProblem &problem;
  const double seconds;
  const int64_t mostFeasible;
  const SearchSpace space;
  Pricing pricing;
  std::vector<Family> families;
  Standing standing;
};

} // namespace

Standing standingOf(const SearchProblem &problem, double seconds, int64_t mostDrawn,
                    int64_t mostFeasible) {
  return Counter(problem, seconds, mostFeasible).run(mostDrawn);
}

} // namespace cleave

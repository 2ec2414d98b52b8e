//===- Sharings.h - Ways to share state in a group of layouts ----------------===//
//
// What the layouts of a group (degrees and micro-batch) take at least, by who shares state: a way
// that is fast may need too much memory whatever the pipeline, and one that fits may exchange so
// much that none of the pipelines is worth a look. Both are known before any pipeline is made.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "lib/Planner/Pricing.h"
#include "lib/Planner/SearchSpace.h"
#include <bitset>

namespace cleave {

class Sharings {
public:
  Sharings(const SearchProblem &problem, const SearchSpace &space, Pricing &pricing)
      : problem(problem), space(space), pricing(pricing) {}

  /// Ways in which layers do the same: exchanges are behind the step's last micro-batch, or each
  /// micro-batch sums gradients, or gathers parameters too. A later class never has more memory
  /// than an earlier one but for what it gathers.
  static constexpr size_t kClasses = 3;
  static size_t classOf(const Choice &choice) {
    return static_cast<size_t>(std::max<int64_t>(choice.zero - 1, 0));
  }
  using Classes = std::bitset<kClasses>;

  /// The classes by which a layout of the group may fit, the first ones that cannot left out; none:
  /// it is too large.
  Classes possible(const Choice &group);
  /// What layers add at least by any way of `classes`.
  Pricing::Shares leastShares(const Choice &group, Classes classes);
  /// Below the step of a layout.
  double boundOf(const Choice &choice);

private:
  struct Way {
    Choice choice;
    Pricing::Exchanges exchanges;
  };
  struct Ways {
    std::vector<Way> all;
    /// Of each class that has any: no more than each of its ways has, of time and of memory.
    std::array<std::optional<Way>, kClasses> least;
  };
  /// All that exchanges of state depend on.
  using Key = std::pair<std::array<int64_t, 6>, cost::AxisOrder>;
  const Ways &waysOf(const Choice &group);

  const SearchProblem &problem;
  const SearchSpace &space;
  Pricing &pricing;
  std::map<Key, Ways> ways;
};

} // namespace cleave

//===- Search.cpp - The best layout, best bounds first -----------------------===//

#include "cleave/Planner/Search.h"
#include "lib/Planner/Pricing.h"
#include "lib/Planner/SearchSpace.h"
#include "lib/Planner/Sharings.h"
#include "llvm/ADT/STLExtras.h"
#include <chrono>
#include <cmath>
#include <limits>
#include <queue>

namespace cleave {

namespace {

/// How far a layout has been looked at.
enum class Level { Family, Group, Pipeline, Whole };

struct Node {
  double bound;
  Level level;
  Choice choice;
  /// Of a rank, at least; of a whole one all. Where memory is no aim, of whole ones alone.
  double bytes = 0;
  /// Of a group or a pipeline: by which its layouts may fit.
  Sharings::Classes classes = {};

  /// The lowest bound first, then what is nearest to an answer, then in order.
  bool operator<(const Node &o) const {
    return std::tuple(bound, -static_cast<int>(level), choice) >
           std::tuple(o.bound, -static_cast<int>(o.level), o.choice);
  }
};

bool isBetter(const PricedChoice &a, const PricedChoice &b) {
  return std::pair(a.seconds(), a.choice) < std::pair(b.seconds(), b.choice);
}

/// The degrees of a choice: among those that agree in them the best one alone is reported.
auto meshOf(const Choice &c) { return std::tie(c.dp, c.tp, c.cp, c.pp, c.ep); }

/// The best found so far.
class Best {
public:
  explicit Best(const SearchOptions &options) : options(options) {}

  void offer(const PricedChoice &found) {
    if (options.pareto)
      offerFront(found);
    auto same = llvm::find_if(
        best, [&](const PricedChoice &b) { return meshOf(b.choice) == meshOf(found.choice); });
    if (same != best.end()) {
      if (!isBetter(found, *same))
        return;
      best.erase(same);
    }
    best.insert(llvm::upper_bound(best, found, isBetter), found);
    if (best.size() > options.top)
      best.pop_back();
  }

  /// Whether something that takes at least `bound` and `bytes`, of the mesh of `choice`, can be of
  /// interest.
  bool canImprove(const Choice &choice, double bound, double bytes) const {
    const auto same = llvm::find_if(
        best, [&](const PricedChoice &b) { return meshOf(b.choice) == meshOf(choice); });
    const bool isFast = !isAbove(bound) && (same == best.end() || bound <= same->seconds());
    return isFast || (options.pareto && llvm::none_of(front, [&](const PricedChoice &f) {
                        return f.seconds() <= bound && f.bytes() <= bytes;
                      }));
  }

  /// Whether all that take at least `bound` are slower than all that will be reported by time.
  bool isAbove(double bound) const {
    return bound > options.atMost || (best.size() == options.top && bound > best.back().seconds());
  }

  std::vector<PricedChoice> best, front;

private:
  void offerFront(const PricedChoice &found) {
    auto covers = [](const PricedChoice &a, const PricedChoice &b) {
      return a.seconds() <= b.seconds() && a.bytes() <= b.bytes();
    };
    if (llvm::any_of(front, [&](const PricedChoice &f) { return covers(f, found); }))
      return;
    llvm::erase_if(front, [&](const PricedChoice &f) { return covers(found, f); });
    front.insert(llvm::upper_bound(front, found, isBetter), found);
  }

  const SearchOptions &options;
};

class Searcher {
public:
  Searcher(const SearchProblem &problem, const SearchOptions &options, SearchObserver *observer)
      : problem(problem), options(options), observer(observer), space(problem), pricing(problem),
        sharings(problem, space, pricing), best(options) {}

  SearchResult run() {
    const auto start = std::chrono::steady_clock::now();
    space.families([&](const Choice &family) {
      ++result.counts.families;
      queue.push({pricing.familyBound(family), Level::Family, family});
    });
    result.complete = true;
    for (int64_t turn = 0; !queue.empty(); ++turn) {
      const Node node = queue.top();
      // Of a front, what is left may still be small.
      if (!options.pareto && best.isAbove(node.bound))
        break;
      if (!best.canImprove(node.choice, node.bound, node.bytes)) {
        queue.pop();
        continue;
      }
      if (turn % 64 == 63 && isLate(start)) {
        result.complete = false;
        break;
      }
      queue.pop();
      open(node);
      if (observer && turn % 1024 == 0)
        observer->onProgress(result.counts, best.best.empty() ? 0 : best.best.front().seconds(),
                             node.bound);
    }
    result.best = best.best;
    result.pareto = best.front;
    if (!result.best.empty())
      result.bound = result.best.front().seconds();
    if (!result.complete && !queue.empty())
      result.bound =
          std::min(result.best.empty() ? queue.top().bound : result.bound, queue.top().bound);
    return std::move(result);
  }

private:
  bool isLate(std::chrono::steady_clock::time_point start) const {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    // Something is always found, if it is there at all.
    return options.timeLimit > 0 && spent.count() > options.timeLimit &&
           (!best.best.empty() || std::isfinite(options.atMost));
  }

  /// By the formula.
  bool fits(double bytes) const { return problem.memory <= 0 || bytes <= problem.formulaLimit(); }

  void open(const Node &node) {
    switch (node.level) {
    case Level::Family:
      tooLarge = false;
      space.groups(node.choice, [&](const Choice &c) { openGroup(c, node.bound); });
      return;
    case Level::Group:
      lastBound.reset();
      shares = sharings.leastShares(node.choice, node.classes);
      space.pipelines(node.choice, [&](const Choice &c) { openPipeline(c, node); });
      return;
    case Level::Pipeline:
      // Most are never looked at, so memory is asked for late.
      if (!fits(pricing.leastMemoryOf(node.choice, problem.formulaLimit()))) {
        ++result.counts.tooLarge;
        return;
      }
      space.sharings(node.choice, [&](const Choice &c) { openSharing(c, node); });
      return;
    case Level::Whole:
      return predict(node);
    }
  }

  void openGroup(const Choice &group, double atLeast) {
    ++result.counts.bounded;
    // Larger micro-batches never need less.
    const Sharings::Classes classes = tooLarge ? Sharings::Classes() : sharings.possible(group);
    tooLarge |= classes.none();
    if (tooLarge) {
      ++result.counts.tooLarge;
      return;
    }
    const double bound =
        std::max(atLeast, pricing.groupBound(group, sharings.leastShares(group, classes)));
    const double least = options.pareto ? pricing.leastMemoryOfGroup(group) : 0;
    if (best.canImprove(group, bound, least))
      queue.push({bound, Level::Group, group, least, classes});
  }

  void openPipeline(const Choice &pipeline, const Node &group) {
    // Schedules that are alike for the bound follow each other.
    const std::pair key(pipeline.vp, cost::fillsUpWaits(pipeline.schedule));
    if (!lastBound || lastBound->first != key)
      lastBound = {key, pricing.pipelineBound(pipeline, shares)};
    const double bound = std::max(group.bound, lastBound->second);
    ++result.counts.bounded;
    if (best.canImprove(pipeline, bound, group.bytes))
      queue.push({bound, Level::Pipeline, pipeline, group.bytes, group.classes});
  }

  void openSharing(const Choice &choice, const Node &pipeline) {
    if (!pipeline.classes[Sharings::classOf(choice)])
      return;
    ++result.counts.bounded;
    // What is waited for takes no memory.
    Choice waiting = choice;
    waiting.overlap = false;
    if (lastBytes.first != waiting)
      lastBytes = {waiting, problem.memory > 0 ? pricing.memoryOf(choice, problem.formulaLimit())
                                               : pricing.memoryOf(choice)};
    const double bytes = problem.bytesOf(choice, lastBytes.second);
    if (!problem.fits(choice, lastBytes.second)) {
      ++result.counts.tooLarge;
      return;
    }
    const double bound = std::max(pipeline.bound, sharings.boundOf(choice));
    if (best.canImprove(choice, bound, bytes))
      queue.push({bound, Level::Whole, choice, bytes});
  }

  void predict(const Node &node) {
    const PricedChoice found = pricing.price(node.choice);
    ++result.counts.predicted;
    const bool isFirst = best.best.empty() || isBetter(found, best.best.front());
    best.offer(found);
    if (!observer)
      return;
    observer->onPredicted(found);
    if (isFirst)
      observer->onBetter(found);
  }

  const SearchProblem &problem;
  const SearchOptions &options;
  SearchObserver *observer;
  SearchSpace space;
  Pricing pricing;
  Sharings sharings;
  Best best;
  std::priority_queue<Node> queue;
  SearchResult result;
  /// Of the group that is being opened, and of the last of its pipelines.
  Pricing::Shares shares;
  std::optional<std::pair<std::pair<int64_t, bool>, double>> lastBound;
  /// The layout whose memory was asked for last.
  std::pair<Choice, double> lastBytes{Choice{.dp = 0}, 0};
  /// A group of the family that is being opened does not fit.
  bool tooLarge = false;
};

} // namespace

SearchResult search(const SearchProblem &problem, const SearchOptions &options,
                    SearchObserver *observer) {
  return Searcher(problem, options, observer).run();
}

SearchResult searchAll(const SearchProblem &problem, const SearchOptions &options) {
  SearchResult result;
  Best best(options);
  Pricing pricing(problem);
  forEachChoice(problem, [&](const Choice &choice) {
    const PricedChoice priced = pricing.price(choice);
    ++result.counts.predicted;
    if (problem.fits(choice, priced.bytes()))
      best.offer(priced);
    else
      ++result.counts.tooLarge;
  });
  result.best = best.best;
  result.pareto = best.front;
  result.complete = true;
  if (!result.best.empty())
    result.bound = result.best.front().seconds();
  return result;
}

} // namespace cleave

//===- Relax.cpp - Why nothing fits, and what would help ---------------------===//

#include "cleave/Planner/Relax.h"
#include "lib/Planner/Pricing.h"
#include "lib/Planner/SearchSpace.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <limits>

namespace cleave {

namespace {

/// Goes through the space by memory alone.
class SmallestFinder {
public:
  SmallestFinder(const SearchProblem &problem, double enough)
      : problem(problem), space(problem), pricing(problem), enough(enough) {}

  std::optional<SmallestChoice> run() {
    std::optional<Choice> last;
    space.families([&](const Choice &family) {
      // The order of axes is no matter of memory, but for groups that share state, which have more
      // of it than all.
      Choice usual = family;
      usual.order = {};
      if (problem.bans.empty() && last == usual)
        return;
      last = usual;
      if (!isDone())
        space.groups(family, [&](const Choice &group) {
          if (!isDone() && !(found && pricing.leastMemoryOfGroup(group) >= found->bytes))
            space.pipelines(group, [&](const Choice &pipeline) { visit(pipeline); });
        });
    });
    return found;
  }

private:
  bool isDone() const { return found && found->bytes <= enough; }

  void visit(const Choice &pipeline) {
    if (isDone() || (found && pricing.leastMemoryOf(pipeline) >= found->bytes))
      return;
    space.sharings(pipeline, [&](const Choice &choice) {
      const double bytes = problem.bytesOf(choice, pricing.memoryOf(choice));
      if (!found || bytes < found->bytes)
        found = {choice, bytes};
    });
  }

  const SearchProblem &problem;
  const SearchSpace space;
  Pricing pricing;
  const double enough;
  std::optional<SmallestChoice> found;
};

/// A pin, a ban, or the memory.
struct Constraint {
  std::string text;
  void (*release)(SearchProblem &, size_t index);
  size_t index = 0;
};

std::vector<Constraint> constraintsOf(const SearchProblem &problem) {
  std::vector<Constraint> all;
  const Pins &pins = problem.request.pins;
  auto number = [&](const char *name, const auto &pin, auto release) {
    if (pin)
      all.push_back(
          {std::string(name) + "=" + std::to_string(static_cast<int64_t>(*pin)), release});
  };
  using P = SearchProblem;
  number("dp", pins.dp, [](P &p, size_t) { p.request.pins.dp.reset(); });
  number("tp", pins.tp, [](P &p, size_t) { p.request.pins.tp.reset(); });
  number("cp", pins.cp, [](P &p, size_t) { p.request.pins.cp.reset(); });
  number("pp", pins.pp, [](P &p, size_t) { p.request.pins.pp.reset(); });
  number("vp", pins.vp, [](P &p, size_t) { p.request.pins.vp.reset(); });
  number("ep", pins.experts, [](P &p, size_t) { p.request.pins.experts.reset(); });
  if (pins.schedule)
    all.push_back(
        {"schedule=" + *pins.schedule, [](P &p, size_t) { p.request.pins.schedule.reset(); }});
  number("zero", pins.zero, [](P &p, size_t) { p.request.pins.zero.reset(); });
  number("zero_group", pins.zeroGroup, [](P &p, size_t) { p.request.pins.zeroGroup.reset(); });
  number("sp", pins.sequence, [](P &p, size_t) { p.request.pins.sequence.reset(); });
  number("vocab", pins.vocabulary, [](P &p, size_t) { p.request.pins.vocabulary.reset(); });
  if (pins.recompute)
    all.push_back({std::string("recompute=") + recomputeName(*pins.recompute),
                   [](P &p, size_t) { p.request.pins.recompute.reset(); }});
  number("overlap", pins.overlap, [](P &p, size_t) { p.request.pins.overlap.reset(); });
  number("micro_batch", pins.microBatch, [](P &p, size_t) { p.request.pins.microBatch.reset(); });
  if (pins.order)
    all.push_back(
        {"order=" + pins.order->text(), [](P &p, size_t) { p.request.pins.order.reset(); }});
  for (auto [i, ban] : llvm::enumerate(problem.bans))
    all.push_back({"forbid " + ban.field + (ban.value ? "=" + *ban.value : ""),
                   // A ban of what nothing is.
                   [](P &p, size_t at) { p.bans[at].value = ""; }, i});
  if (problem.memory > 0)
    all.push_back({"memory", [](P &p, size_t) { p.memory = 0; }});
  return all;
}

class ConflictFinder {
public:
  explicit ConflictFinder(const SearchProblem &problem)
      : problem(problem), all(constraintsOf(problem)) {}

  /// The smallest set in conflict; of up to three members all sets are tried, a larger one is
  /// only known to have no member too many.
  std::vector<size_t> find() {
    for (size_t size = 0; size <= std::min<size_t>(3, all.size()); ++size) {
      std::vector<size_t> set;
      if (tryAll(0, size, set))
        return set;
    }
    std::vector<size_t> kept(all.size());
    for (size_t i = 0; i < all.size(); ++i)
      kept[i] = i;
    for (size_t i = 0; i < all.size(); ++i) {
      std::vector<size_t> without = kept;
      llvm::erase(without, i);
      if (inConflict(without))
        kept = without;
    }
    return kept;
  }

  SearchProblem with(const std::vector<size_t> &kept) const {
    SearchProblem only = problem;
    for (size_t i = 0; i < all.size(); ++i)
      if (!llvm::is_contained(kept, i))
        all[i].release(only, all[i].index);
    return only;
  }
  const std::string &textOf(size_t i) const { return all[i].text; }
  size_t size() const { return all.size(); }

private:
  bool inConflict(const std::vector<size_t> &kept) const {
    const SearchProblem only = with(kept);
    const double enough = only.memory > 0 ? only.memory : std::numeric_limits<double>::max();
    const auto smallest = smallestChoice(only, enough);
    return !smallest || smallest->bytes > enough;
  }

  bool tryAll(size_t from, size_t size, std::vector<size_t> &set) const {
    if (set.size() == size)
      return inConflict(set);
    for (size_t i = from; i < all.size(); ++i) {
      set.push_back(i);
      if (tryAll(i + 1, size, set))
        return true;
      set.pop_back();
    }
    return false;
  }

  const SearchProblem &problem;
  const std::vector<Constraint> all;
};

/// `choice` with what `pins` fix.
Choice withPins(Choice choice, const Pins &pins) {
  const auto take = [](auto &to, const auto &from) {
    if (from)
      to = *from;
  };
  take(choice.dp, pins.dp);
  take(choice.tp, pins.tp);
  take(choice.cp, pins.cp);
  take(choice.pp, pins.pp);
  take(choice.vp, pins.vp);
  take(choice.ep, pins.experts);
  take(choice.schedule, pins.schedule);
  take(choice.zero, pins.zero);
  take(choice.zeroGroup, pins.zeroGroup);
  take(choice.sequence, pins.sequence);
  take(choice.vocabulary, pins.vocabulary);
  take(choice.overlap, pins.overlap);
  take(choice.microBatch, pins.microBatch);
  if (pins.order)
    choice.order = pins.order->leastFor(choice.axisSizes());
  // What goes with it is no rule that is broken.
  if (choice.vp > 1 && !pins.schedule)
    choice.schedule = "interleaved";
  if (choice.schedule == "interleaved" && !pins.vp)
    choice.vp = std::max<int64_t>(choice.vp, 2);
  return choice;
}

/// Meshes of all ranks under `pins`.
void forEachMesh(int64_t ranks, const Pins &pins, llvm::function_ref<void(const Choice &)> visit) {
  for (int64_t pp = pins.pp.value_or(1); pp <= pins.pp.value_or(ranks); ++pp) {
    if (ranks % pp != 0)
      continue;
    for (int64_t cp = pins.cp.value_or(1); cp <= pins.cp.value_or(ranks / pp); ++cp) {
      if (ranks / pp % cp != 0)
        continue;
      const int64_t left = ranks / pp / cp;
      for (int64_t tp = pins.tp.value_or(1); tp <= pins.tp.value_or(left); ++tp) {
        Choice mesh;
        mesh.pp = pp, mesh.cp = cp, mesh.tp = tp, mesh.dp = left / tp;
        if (left % tp == 0 && (!pins.dp || *pins.dp == mesh.dp))
          visit(mesh);
      }
    }
  }
}

/// What keeps layouts from having all that is in `conflict`: rules that meshes with its degrees
/// break, or where it has none, the one that a layout with all but a part breaks with all.
std::vector<std::string> rulesAgainst(const SearchProblem &problem,
                                      const std::vector<std::string> &conflict,
                                      const std::optional<Choice> &near) {
  const auto pins = parsePins(llvm::join(conflict, ","));
  if (conflict.empty() || !pins.ok())
    return {};
  std::vector<std::string> rules;
  const auto add = [&](const Choice &choice) {
    if (auto rule = brokenRule(problem, withPins(choice, *pins));
        rule && !llvm::is_contained(rules, *rule))
      rules.push_back(*rule);
  };
  const bool isOfPipelines = pins->vp.value_or(1) > 1 || pins->schedule.value_or("1f1b") != "1f1b";
  if (!pins->dp && !pins->tp && !pins->cp && !pins->pp && !isOfPipelines) {
    if (near)
      add(*near);
  } else {
    forEachMesh(problem.request.ranks, *pins, [&](const Choice &mesh) {
      if (!isOfPipelines || mesh.pp > 1)
        add(mesh);
    });
    if (rules.empty())
      rules.push_back(isOfPipelines
                          ? "vp and schedule are of a pipeline, whose pp divides the ranks"
                          : "dp × cp × tp × pp = ranks");
  }
  return rules;
}

} // namespace

std::optional<SmallestChoice> smallestChoice(const SearchProblem &problem, double enough) {
  return SmallestFinder(problem, enough).run();
}

Infeasible explainInfeasible(const SearchProblem &problem) {
  Infeasible out;
  SearchProblem unlimited = problem;
  unlimited.memory = 0;
  out.smallest = smallestChoice(unlimited);
  ConflictFinder finder(problem);
  const std::vector<size_t> conflict = finder.find();
  for (size_t i : conflict)
    out.conflict.push_back(finder.textOf(i));
  // What is given up for each of them, all others kept.
  for (size_t given : conflict) {
    if (finder.textOf(given) == "memory")
      continue;
    std::vector<size_t> kept;
    for (size_t i = 0; i < finder.size(); ++i)
      if (i != given)
        kept.push_back(i);
    const SearchProblem relaxed = finder.with(kept);
    SearchOptions options;
    options.timeLimit = 10;
    const SearchResult found = search(relaxed, options);
    if (!found.best.empty())
      out.relaxations.push_back({"without " + finder.textOf(given), found.best.front()});
    // Of the conflict alone: what else was asked may be in one of its own.
    std::vector<size_t> others = conflict;
    llvm::erase(others, given);
    const auto free = smallestChoice(finder.with(others), std::numeric_limits<double>::max());
    if (free && out.rules.empty())
      out.rules = rulesAgainst(problem, out.conflict, free->choice);
  }
  llvm::sort(out.relaxations, [](const Relaxation &a, const Relaxation &b) {
    return std::pair(a.best.seconds(), a.text) < std::pair(b.best.seconds(), b.text);
  });
  return out;
}

} // namespace cleave

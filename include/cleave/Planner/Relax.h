//===- Relax.h - Why nothing fits, and what would help -----------------------===//
//
// For a request that no layout meets: the smallest set of its pins, bans and limits
// that cannot hold together, how much memory is missing, and what it takes to give up
// one of them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Planner/Search.h"

namespace cleave {

/// A layout that needs the least memory.
struct SmallestChoice {
  Choice choice;
  double bytes = 0;
};
/// Over all choices; stops at one that needs at most `enough` bytes. Nothing where there is no
/// choice at all.
std::optional<SmallestChoice> smallestChoice(const SearchProblem &problem, double enough = 0);

/// One way to make a request feasible.
struct Relaxation {
  /// What to give up ("without tp=1"), and what is then the best.
  std::string text;
  PricedChoice best;
};

struct Infeasible {
  /// Pins and bans as the user wrote them, "memory" for that of a device. None of them can be
  /// left out; no smaller set was found to be in conflict.
  std::vector<std::string> conflict;
  /// Which rules a layout with all of these would break; empty where a ban or memory is among them.
  std::vector<std::string> rules;
  /// Under all pins and bans; nothing where these alone leave no layout.
  std::optional<SmallestChoice> smallest;
  /// Fastest first.
  std::vector<Relaxation> relaxations;
};

/// For a problem of which `search` found nothing.
Infeasible explainInfeasible(const SearchProblem &problem);

} // namespace cleave

//===- SearchSpace.h - Which layouts there are -------------------------------===//
//
// The space of the search as three nested lists. What a list contains is said by the
// rules that plans are made and checked by (Policy.h, Stages.h, lib/Schedule).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Planner/Search.h"
#include "lib/Planner/Policy.h"

namespace cleave {

class SearchSpace {
public:
  explicit SearchSpace(const SearchProblem &problem);

  using Visit = llvm::function_ref<void(const Choice &)>;
  /// All that decides what a layer takes of a sequence, and the ranks of the pipeline; the
  /// micro-batch is left open.
  void families(Visit visit) const;
  /// The micro-batches of one of these.
  void groups(const Choice &family, Visit visit) const;
  /// Schedules and stages of a rank for one of these.
  void pipelines(const Choice &group, Visit visit) const;
  /// Who shares state, and whether exchanges run beside the computation.
  void sharings(const Choice &pipeline, Visit visit) const;

  /// All choices that are in none of the bans.
  void all(Visit visit) const;
  int64_t count() const;

private:
  void meshes(Visit visit) const;
  bool isAllowed(const Choice &choice) const { return !isBanned(choice, problem.bans); }

  const SearchProblem &problem;
  Pins pins;
};

/// Whether the experts of `choice` are dealt out over whole tensor ranks, so that none has a part
/// of their width.
bool dealsExpertsOverTensor(const Choice &choice);

/// The ranks of one host that may share state in groups, beside those of `choice`'s tensor axis;
/// 0: there is no such group.
int64_t groupOfNode(const SearchProblem &problem, const Choice &choice);

} // namespace cleave

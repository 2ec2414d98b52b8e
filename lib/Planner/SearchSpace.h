//===- SearchSpace.h - Which layouts there are -------------------------------===//
//
// The space of the search as three nested lists. What a list contains is said by the
// rules that plans are made and checked by (Policy.h, Stages.h, lib/Schedule).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/Places.h"
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
  /// The same for all pipelines of a group: bans of these alone are heeded.
  void waysToShare(const Choice &group, Visit visit) const;

  /// All choices that are in none of the bans.
  void all(Visit visit) const;
  int64_t count() const;
  /// Of `family`: how many it has, bans aside, and the one of a number.
  struct FamilySize {
    int64_t pipelines = 0, sharings = 0;
    int64_t layouts() const { return pipelines * sharings; }
  };
  FamilySize sizeOf(const Choice &family) const;
  Choice at(const Choice &family, const FamilySize &size, int64_t number) const;
  /// The orders of a mesh's axes of which each has other ranks on a node together, the least of
  /// those that are alike.
  std::vector<cost::AxisOrder> orders(const Choice &mesh) const;
  bool isAllowed(const Choice &choice) const { return !isBanned(choice, problem.bans); }

private:
  void meshes(Visit visit) const;
  /// With experts and the order of axes.
  void placedMeshes(Visit visit) const;
  /// Where all stand that exchange, for any way to share state.
  std::vector<int64_t> linksOf(const Choice &mesh) const;
  /// Those that bans leave, and those that they do not.
  void sharings(const Choice &pipeline, bool withBanned, Visit visit) const;

  const SearchProblem &problem;
  Pins pins;
  /// Bans of what is known of a pipeline, those of who shares state, and those of orders.
  std::vector<Ban> early, late, ofOrders;
  /// What families were counted last, and how many layouts they have.
  mutable Choice lastMesh{.dp = 0};
  mutable FamilySize lastSize;
};

/// Whether the experts of `choice` are dealt out over whole tensor ranks, so that none has a part
/// of their width.
bool dealsExpertsOverTensor(const Choice &choice);

Degrees degreesOf(const Choice &choice);

/// The most ranks that may share state in groups each of which stands on one host; 0: there is no
/// such group.
int64_t groupOfNode(const SearchProblem &problem, const Choice &choice);

} // namespace cleave

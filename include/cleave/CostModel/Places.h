//===- Places.h - Where the ranks of an exchange stand ----------------------===//
//
// Devices stand in domains of links, so many after each other. How many ranks of a group
// share a domain follows from how far apart they are, and so from the order of axes: this
// is all by which orders differ in what a step takes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/Collectives.h"
#include "cleave/CostModel/Layout.h"

namespace cleave::cost {

class Places {
public:
  /// `domain`: devices of one.
  Places(const Layout &layout, int64_t domain);

  Group tensor() const;
  Group context() const;
  /// Replicas of a layer, and those of an expert.
  Group replicas() const;
  Group expertReplicas() const;
  /// Those that exchange rows of experts.
  Group experts() const;
  /// Where groups of `ranks` replicas share state: one of them, and those that have the same part
  /// of it in all groups.
  Group sharing(int64_t ranks) const;
  Group acrossSharing(int64_t ranks) const;
  /// No stage sends out of its domain.
  bool pipelineIsNear() const;

  /// What a layer depends on of all this; and all that a step does, but for groups that share
  /// state.
  std::array<int64_t, 3> ofLayers() const;
  std::array<int64_t, 6> all() const;

private:
  /// Ranks of an axis, or of a part of it.
  struct Line {
    int64_t stride = 1, ranks = 1;
  };
  /// `ranks` of an axis, of which `inside` others of the same axis lie further in.
  Line along(MeshAxis axis, int64_t ranks, int64_t inside = 1) const;
  int64_t size(MeshAxis axis) const { return sizes[static_cast<size_t>(axis)]; }
  int64_t nearOf(Line line) const;
  /// All ranks of some lines, from the inside out or not.
  Group groupOf(std::array<Line, 3> lines) const;
  /// How many of the context's ranks, and of data's, are in a group that shares state.
  std::pair<int64_t, int64_t> partsOf(int64_t ranks) const;

  AxisSizes sizes;
  AxisOrder order;
  int64_t devices, domain, expert;
  bool expertWidth;
  std::optional<ExpertRanks> dealt;
};

} // namespace cleave::cost

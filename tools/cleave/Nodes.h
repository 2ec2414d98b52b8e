//===- Nodes.h - Which ranks stand on which nodes ----------------------------===//
//
// Rank r is device r mod D of node r / D, where nodes have D devices. Axes of a mesh are listed
// major to minor, so the innermost ones stay within a node. What crosses nodes follows from
// mesh and cluster alone; no plan is changed for it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Target/Image/Traffic.h"
#include "dialects/Dist/Dist.h"
#include "runtime/Base/Json.h"

#include <map>
#include <string>
#include <vector>

namespace cleave::tool {

class Nodes {
public:
  /// `devices` of a node; of an unknown cluster all ranks are on one.
  Nodes(dist::Mesh mesh, int64_t devices);

  int64_t count() const { return (mesh.ranks() + devices - 1) / devices; }
  int64_t devicesEach() const { return devices; }
  /// On how many nodes the ranks of an exchange stand, the most of all groups.
  int64_t of(const TrafficRow &row) const;
  /// Bytes on all ranks of exchanges whose groups cross nodes.
  int64_t bytesBetween(const std::vector<TrafficRow> &rows) const;

  /// For each axis its groups of ranks: "tensor: 0 1 2 3, 4 5 6 7". The first few of many.
  std::string text() const;
  /// `count`, `devices`, and `groups`: for each axis a list of lists of ranks.
  void write(rt::JsonWriter &out) const;
  /// What crosses nodes within a micro-batch, where every layer waits for it; empty if nothing
  /// does.
  std::string warning(const std::vector<TrafficRow> &rows) const;

private:
  /// The ranks that differ along an axis alone, for each such set.
  std::vector<std::vector<int64_t>> groups(const std::vector<std::string> &axes) const;
  int64_t nodesOf(const std::vector<std::string> &axes) const;

  dist::Mesh mesh;
  int64_t devices;
  /// What `nodesOf` found, for the many exchanges along the same axes.
  mutable std::map<std::vector<std::string>, int64_t> spans;
};

} // namespace cleave::tool

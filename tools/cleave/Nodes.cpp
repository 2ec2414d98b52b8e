//===- Nodes.cpp - Which ranks stand on which nodes --------------------------===//

#include "Nodes.h"
#include "Driver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace cleave::tool {

Nodes::Nodes(dist::Mesh mesh, int64_t devices)
    : mesh(std::move(mesh)), devices(std::max<int64_t>(1, devices)) {}

std::vector<std::vector<int64_t>> Nodes::groups(const std::vector<std::string> &axes) const {
  std::map<std::vector<int64_t>, std::vector<int64_t>> byOthers;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    std::vector<int64_t> others;
    int64_t rest = rank;
    for (size_t axis = mesh.names.size(); axis-- > 0;) {
      if (std::find(axes.begin(), axes.end(), mesh.names[axis]) == axes.end())
        others.push_back(rest % mesh.sizes[axis]);
      rest /= mesh.sizes[axis];
    }
    std::reverse(others.begin(), others.end());
    byOthers[std::move(others)].push_back(rank);
  }
  std::vector<std::vector<int64_t>> result;
  for (auto &[others, ranks] : byOthers)
    result.push_back(std::move(ranks));
  return result;
}

int64_t Nodes::nodesOf(const std::vector<std::string> &axes) const {
  if (count() == 1)
    return 1;
  auto [known, fresh] = spans.try_emplace(axes, 1);
  if (!fresh)
    return known->second;
  for (const std::vector<int64_t> &group : groups(axes)) {
    std::set<int64_t> nodes;
    for (int64_t rank : group)
      nodes.insert(rank / devices);
    known->second = std::max(known->second, static_cast<int64_t>(nodes.size()));
  }
  return known->second;
}

int64_t Nodes::of(const TrafficRow &row) const { return nodesOf(row.axes); }

int64_t Nodes::bytesBetween(const std::vector<TrafficRow> &rows) const {
  int64_t bytes = 0;
  for (const TrafficRow &row : rows)
    if (of(row) > 1)
      bytes += row.total() * row.ranks;
  return bytes;
}

std::string Nodes::text() const {
  constexpr size_t shown = 8;
  std::string text = fmt::format("rank r is device r mod {} of node r / {}: {} nodes\n", devices,
                                 devices, count());
  for (size_t axis = 0; axis < mesh.names.size(); ++axis) {
    if (mesh.sizes[axis] == 1)
      continue;
    const auto all = groups({mesh.names[axis]});
    std::vector<std::string> first;
    for (size_t i = 0; i < std::min(shown, all.size()); ++i)
      first.push_back(fmt::format("{}", fmt::join(all[i], " ")));
    text += fmt::format("{}: {}{}\n", mesh.names[axis], fmt::join(first, ", "),
                        all.size() > shown ? fmt::format(", … ({} groups)", all.size())
                                           : std::string());
  }
  return text;
}

void Nodes::write(rt::JsonWriter &out) const {
  out.beginObject().key("count").value(count()).key("devices").value(devices);
  out.key("groups").beginObject();
  for (size_t axis = 0; axis < mesh.names.size(); ++axis) {
    if (mesh.sizes[axis] == 1)
      continue;
    out.key(mesh.names[axis]).beginArray();
    for (const std::vector<int64_t> &group : groups({mesh.names[axis]})) {
      out.beginArray();
      for (int64_t rank : group)
        out.value(rank);
      out.endArray();
    }
    out.endArray();
  }
  out.endObject().endObject();
}

std::string Nodes::warning(const std::vector<TrafficRow> &rows) const {
  // Beside the computation layers do not wait; what is left of the sums of gradients is the
  // last of them.
  const bool overlaps = std::ranges::any_of(rows, [](auto &row) { return !row.bucket.empty(); });
  auto isWaitedFor = [&](const TrafficRow &row) {
    return (row.stage || row.entry == "microbatch") && row.bucket.empty() &&
           !(overlaps && row.label.ends_with(" gradient"));
  };
  std::map<std::string, int64_t> bytes;
  for (const TrafficRow &row : rows)
    if (!row.isTransfer() && isWaitedFor(row) && of(row) > 1)
      bytes[fmt::format("{}", fmt::join(row.axes, "+"))] += row.total() * row.ranks;
  std::string text;
  for (const auto &[axes, sum] : bytes)
    text +=
        fmt::format("warning[plan.group_crosses_nodes]: ranks along {} stand on several nodes of "
                    "{} devices; {} bytes a step are exchanged between them within "
                    "micro-batches, where layers wait for them\n",
                    axes, devices, grouped(sum));
  return text;
}

} // namespace cleave::tool

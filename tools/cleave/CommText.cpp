//===- CommText.cpp - A step's communication for people and scripts ----------===//

#include "CommText.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

namespace cleave::tool {

namespace {
/// On all ranks.
struct Total {
  int64_t bytes = 0, messages = 0;
};
using Totals = std::vector<std::pair<std::string, Total>>;
} // namespace

static std::string axesOf(const TrafficRow &row) {
  return fmt::format("{}", fmt::join(row.axes, "+"));
}

/// The largest first.
static Totals totalsBy(const std::vector<TrafficRow> &rows,
                       const std::function<std::string(const TrafficRow &)> &key) {
  std::map<std::string, Total> sums;
  for (const TrafficRow &row : rows) {
    Total &sum = sums[key(row)];
    sum.bytes += row.total() * row.ranks;
    sum.messages += row.messages() * row.ranks;
  }
  Totals sorted(sums.begin(), sums.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) {
    return a.second.bytes != b.second.bytes ? a.second.bytes > b.second.bytes : a.first < b.first;
  });
  return sorted;
}

static Totals totalsByKind(const std::vector<TrafficRow> &rows) {
  return totalsBy(rows, [](const TrafficRow &row) { return row.kind; });
}

/// "microbatch", "forward of stage 2".
static std::string entryOf(const TrafficRow &row) {
  return row.stage ? fmt::format("{} of stage {}", row.entry, *row.stage) : row.entry;
}

static std::string placementsOf(const TrafficRow &row) {
  if (!row.from || !row.to)
    return "";
  return fmt::format("[{}] → [{}]{}", placementText(row.from, row.dims),
                     placementText(row.to, row.dims), row.bucket.empty() ? "" : ", in a bucket");
}

std::string communicationText(const std::vector<TrafficRow> &rows, int64_t ranks,
                              const Nodes &nodes) {
  const Totals all = totalsBy(rows, [](const TrafficRow &) { return ""; });
  const Total total = all.empty() ? Total() : all.front().second;
  std::string text = fmt::format("a step of {} rank{}: {} bytes in {} messages on all of them\n",
                                 ranks, ranks == 1 ? "" : "s", total.bytes, total.messages);
  if (nodes.count() > 1)
    text += fmt::format("{} of these bytes between nodes\n\n{}", nodes.bytesBetween(rows),
                        nodes.text());
  if (rows.empty())
    return text;
  auto addTotals = [&](const char *by, const Totals &totals) {
    text += fmt::format("\n{:>16} {:>10}  {}\n", "bytes", "messages", by);
    for (const auto &[name, sum] : totals)
      text += fmt::format("{:>16} {:>10}  {}\n", sum.bytes, sum.messages, name);
  };
  addTotals("by kind", totalsByKind(rows));
  addTotals("by axes", totalsBy(rows, axesOf));
  // Equal ones in the order of the program.
  std::multimap<int64_t, const TrafficRow *, std::greater<>> sorted;
  for (const TrafficRow &row : rows)
    sorted.insert({row.total() * row.ranks, &row});
  size_t entries = 5, labels = 5;
  for (const TrafficRow &row : rows) {
    entries = std::max(entries, entryOf(row).size());
    labels = std::max(labels, row.label.size());
  }
  text += "\nof one rank in a step\n";
  text += fmt::format("{:>14} = {:>6} × {:<12} {:<15} {:<20} {:<{}}  {:<{}}  {}\n", "bytes",
                      "count", "message", "kind", "axes (ranks)", "entry", entries, "value", labels,
                      "placement");
  for (const auto &[bytes, each] : sorted) {
    const TrafficRow &row = *each;
    std::string line = fmt::format("{:>14} = {:>6} × {:<12} {:<15} {:<20} {:<{}}  {:<{}}  {}",
                                   row.total(), row.count, row.bytes, row.kind,
                                   fmt::format("{} ({})", axesOf(row), row.members), entryOf(row),
                                   entries, row.label, labels, placementsOf(row));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

static void writeRow(rt::JsonWriter &out, const TrafficRow &row, const Nodes &nodes) {
  out.beginObject().key("place").value(row.program).key("entry").value(row.entry);
  if (row.stage)
    out.key("stage").value(*row.stage);
  out.key("kind").value(row.kind).key("source").value(row.label);
  out.key("axes").beginArray();
  for (const std::string &axis : row.axes)
    out.value(axis);
  out.endArray().key("group").value(row.members).key("nodes").value(nodes.of(row));
  if (row.from && row.to) {
    out.key("before").value(placementText(row.from, row.dims));
    out.key("after").value(placementText(row.to, row.dims));
  }
  if (row.isTransfer())
    out.key("to").value(row.peer);
  if (!row.bucket.empty())
    out.key("bucket").value(row.bucket).key("messages").value(row.messages());
  out.key("bytes").value(row.bytes).key("count").value(row.count);
  out.key("total").value(row.total()).key("ranks").value(row.ranks).endObject();
}

void writeCommunicationJson(rt::JsonWriter &out, const std::vector<TrafficRow> &rows, int64_t ranks,
                            const Nodes &nodes) {
  auto writeTotals = [&](const char *key, const Totals &totals) {
    out.key(key).beginObject();
    for (const auto &[name, sum] : totals) {
      out.key(name).beginObject().key("bytes").value(sum.bytes);
      out.key("messages").value(sum.messages).endObject();
    }
    out.endObject();
  };
  out.beginObject().key("ranks").value(ranks);
  writeTotals("kinds", totalsByKind(rows));
  writeTotals("axes", totalsBy(rows, axesOf));
  nodes.write(out.key("nodes"));
  out.key("between_nodes").value(nodes.bytesBetween(rows));
  out.key("rows").beginArray();
  for (const TrafficRow &row : rows)
    writeRow(out, row, nodes);
  out.endArray().endObject();
}

} // namespace cleave::tool

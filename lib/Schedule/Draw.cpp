//===- Draw.cpp - A pipeline's table as text for people --------------------===//

#include "cleave/Schedule/Schedule.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace cleave {

using pipe::Action;
using pipe::ActionKind;
using pipe::Table;

namespace {
/// The lines of one rank.
struct Lines {
  std::string kinds, micros, stages;
};
} // namespace

static char letterOf(ActionKind kind) {
  return kind == ActionKind::Forward ? 'F' : kind == ActionKind::Backward ? 'B' : 'W';
}

static char digitOf(int64_t number) { return static_cast<char>('0' + number % 10); }

static Lines drawRank(const Table::Rank &rank, llvm::ArrayRef<pipe::Timeline::Span> spans,
                      int64_t columns) {
  const std::string blank(columns, ' ');
  Lines lines{std::string(columns, '.'), blank, blank};
  for (auto [action, span] : llvm::zip(rank.actions, spans)) {
    if (!action.isComputation())
      continue;
    const auto from = static_cast<int64_t>(span.start), to = static_cast<int64_t>(span.end);
    for (int64_t column = from; column < std::min(to, columns); ++column) {
      lines.kinds[column] = letterOf(action.kind);
      lines.micros[column] = digitOf(action.micro);
      lines.stages[column] = digitOf(action.stage);
    }
  }
  return lines;
}

std::string drawSchedule(const Table &table, const pipe::Timeline &timeline, int64_t width) {
  const auto all = static_cast<int64_t>(timeline.makespan());
  const int64_t columns = std::min(all, width);
  const bool severalStages = table.stages() > static_cast<int64_t>(table.ranks.size());
  const size_t margin = std::to_string(table.ranks.size() - 1).size() + std::string("rank ").size();
  auto labelled = [&](std::string label, const std::string &line) {
    label.resize(std::max(margin, std::string("micro").size()), ' ');
    const size_t end = line.find_last_not_of(' ');
    return end == std::string::npos ? label + "\n" : label + "  " + line.substr(0, end + 1) + "\n";
  };
  std::string text;
  for (size_t rank = 0; rank < table.ranks.size(); ++rank) {
    const Lines lines = drawRank(table.ranks[rank], timeline.ranks[rank], columns);
    text += labelled("rank " + std::to_string(rank), lines.kinds);
    text += labelled("micro", lines.micros);
    if (severalStages)
      text += labelled("stage", lines.stages);
  }
  if (columns < all)
    text += "(the first " + std::to_string(columns) + " of " + std::to_string(all) +
            " units of time)\n";
  return text;
}

} // namespace cleave

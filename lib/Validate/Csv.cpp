//===- Csv.cpp - Tables with a header (RFC 4180) ---------------------------===//

#include "lib/Validate/Csv.h"
#include "runtime/Base/Files.h"
#include <charconv>
#include <cmath>

namespace cleave::validate {

const std::string &Row::text(const std::string &column) const {
  static const std::string nothing;
  auto it = columns->find(column);
  return it == columns->end() || it->second >= cells.size() ? nothing : cells[it->second];
}

double Row::number(const std::string &column) const {
  const std::string &cell = text(column);
  double value = 0;
  auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool isNumber = error == std::errc() && end == cell.data() + cell.size();
  return isNumber && std::isfinite(value) ? value : 0;
}

int64_t Row::integer(const std::string &column, int64_t absent) const {
  const double value = number(column);
  return value >= 1 && value < 1e15 ? static_cast<int64_t>(value) : absent;
}

rt::StatusOr<Table> readCsv(const std::string &path) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string text, rt::readWholeFile(path));
  std::vector<std::vector<std::string>> rows;
  std::vector<int> lines; // where each row ends
  std::vector<std::string> row(1);
  int line = 1, quoteLine = 0;
  bool quoted = false;
  // Spreadsheets write a byte-order mark in front.
  for (size_t i = text.starts_with("\xef\xbb\xbf") ? 3 : 0; i < text.size(); ++i) {
    const char c = text[i];
    line += c == '\n';
    if (quoted) {
      if (c != '"')
        row.back() += c;
      else if (i + 1 < text.size() && text[i + 1] == '"')
        row.back() += text[++i];
      else
        quoted = false;
    } else if (c == '"') {
      quoted = true;
      quoteLine = line;
    } else if (c == ',') {
      row.emplace_back();
    } else if (c == '\n') {
      if (row.size() > 1 || !row.front().empty()) {
        rows.push_back(std::move(row));
        lines.push_back(line - 1);
      }
      row.assign(1, "");
    } else if (c != '\r') {
      row.back() += c;
    }
  }
  if (quoted)
    return rt::userError("rows.syntax", "a quote is not closed")
        .at({path, quoteLine, 0})
        .withRule("a cell with commas or lines stands between two quotes")
        .suggest("\"…\"");
  if (row.size() > 1 || !row.front().empty()) {
    rows.push_back(std::move(row));
    lines.push_back(line);
  }
  if (rows.empty())
    return rt::userError("rows.syntax", "the table has no header")
        .at({path, 1, 0})
        .withRule("the first line names the columns")
        .suggest("id,group,source,…");
  const size_t columns = rows.front().size();
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].size() != columns)
      return rt::userError("rows.syntax", "a row has not as many cells as the header")
          .at({path, lines[i], 0})
          .withGiven(std::to_string(rows[i].size()) + " cells, " + std::to_string(columns) +
                     " columns")
          .withRule("each row has a cell for each column; what is unknown is an empty one")
          .suggest("as many commas as the header has");
  Table table;
  for (size_t i = 0; i < rows.front().size(); ++i)
    if (!table.columns.emplace(rows.front()[i], i).second && !rows.front()[i].empty())
      return rt::userError("rows.syntax", "the header names a column twice")
          .at({path, lines.front(), 0})
          .withGiven(rows.front()[i])
          .withRule("each column has a name of its own")
          .suggest(rows.front()[i] + "_2");
  table.cells.assign(std::make_move_iterator(rows.begin() + 1),
                     std::make_move_iterator(rows.end()));
  return table;
}

} // namespace cleave::validate

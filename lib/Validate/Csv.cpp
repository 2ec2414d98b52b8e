//===- Csv.cpp - Tables with a header (RFC 4180) ---------------------------===//

#include "lib/Validate/Csv.h"
#include "runtime/Base/Files.h"
#include <charconv>

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
  return error == std::errc() && end == cell.data() + cell.size() ? value : 0;
}

int64_t Row::integer(const std::string &column, int64_t absent) const {
  const double value = number(column);
  return value >= 1 && value < 1e15 ? static_cast<int64_t>(value) : absent;
}

rt::StatusOr<Table> readCsv(const std::string &path) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::string text, rt::readWholeFile(path));
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row(1);
  int line = 1, quoteLine = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
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
      rows.push_back(std::move(row));
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
  if (row.size() > 1 || !row.front().empty())
    rows.push_back(std::move(row));
  if (rows.empty())
    return rt::userError("rows.syntax", "the table has no header")
        .at({path, 1, 0})
        .withRule("the first line names the columns")
        .suggest("id,group,source,…");
  Table table;
  for (size_t i = 0; i < rows.front().size(); ++i)
    table.columns.emplace(rows.front()[i], i);
  table.cells.assign(std::make_move_iterator(rows.begin() + 1),
                     std::make_move_iterator(rows.end()));
  return table;
}

} // namespace cleave::validate

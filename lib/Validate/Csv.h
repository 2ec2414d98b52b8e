//===- Csv.h - Tables with a header (RFC 4180) -----------------------------===//
#pragma once

#include "runtime/Base/Status.h"
#include <map>
#include <string>
#include <vector>

namespace cleave::validate {

/// One row; what it lacks is empty.
class Row {
public:
  Row(const std::map<std::string, size_t> *columns, std::vector<std::string> cells)
      : columns(columns), cells(std::move(cells)) {}

  const std::string &text(const std::string &column) const;
  bool has(const std::string &column) const { return !text(column).empty(); }
  /// 0 where it is absent or no number.
  double number(const std::string &column) const;
  int64_t integer(const std::string &column, int64_t absent = 0) const;

private:
  const std::map<std::string, size_t> *columns;
  std::vector<std::string> cells;
};

struct Table {
  std::map<std::string, size_t> columns;
  std::vector<std::vector<std::string>> cells;

  bool hasColumns(std::initializer_list<const char *> names) const {
    for (const char *name : names)
      if (!columns.count(name))
        return false;
    return true;
  }
  Row row(size_t i) const { return Row(&columns, cells[i]); }
};

/// Reads `path`. Errors: `file.*`, `rows.syntax` with the line.
rt::StatusOr<Table> readCsv(const std::string &path);

} // namespace cleave::validate

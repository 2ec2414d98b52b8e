//===- Validate.h - The cost model against published measurements -----------===//
//
// Reads a table of measurements that others published, predicts each row as it is
// given, and compares. Tables have one of three headers: training steps, collectives,
// kernels. A row that does not say what a prediction needs is left out, with the reason;
// nothing is shifted, and no source has a factor of its own.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Base/Status.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cleave::validate {

/// One row, compared. Errors are predicted / measured - 1.
struct Comparison {
  std::string id, source, group;
  /// Of a step, seconds; of memory, bytes. A table of kernels has times alone.
  std::optional<double> time, predictedTime, memory, predictedMemory;
  /// What the prediction is made of, by name, in seconds.
  std::vector<std::pair<std::string, double>> parts;
  /// The same of memory, in bytes, without what the counter adds.
  std::vector<std::pair<std::string, double>> memoryParts;
  /// In words, for people: "Llama3-70B on 64 GB200".
  std::string what;
  bool hasExperts = false;
  /// Of a kernel or an exchange: its device and kind ("H100, product in bf16").
  std::string unit;
  /// Of a step: what it has in common with other layouts of one model on one machine, what the
  /// layout is, and its sequences.
  std::string sweep, layout;
  double sequences = 1;
};

struct LeftOut {
  std::string id, source, reason;
};

struct Errors {
  int64_t rows = 0, groups = 0;
  double median = 0, p90 = 0, mean = 0, bias = 0;
  /// The row furthest off, and its error.
  std::string worst;
  double worstError = 0;
};

struct Report {
  /// "steps", "collectives" or "kernels".
  std::string table;
  std::vector<Comparison> rows;
  std::vector<LeftOut> leftOut;
};

/// What to average: times or memory.
enum class Quantity { Time, Memory };

/// Errors of the rows that `keep` keeps, each group weighted once.
template <typename Keep> Errors errorsOf(const Report &report, Quantity quantity, Keep keep);

/// How layouts of one model on one machine are put in order. A sweep has three layouts or more;
/// rows of one layout are one point, their mean; times are those of a sequence.
struct Ordering {
  int64_t sweeps = 0;
  /// Pairs of points of a sweep more than 5 % apart, and those whose order is predicted.
  int64_t pairs = 0, right = 0;
  /// How much longer the layout that is predicted to be fastest takes than the fastest.
  double medianRegret = 0, p90Regret = 0;
};
Ordering orderingOf(const Report &report);

/// The mean over sources of the median error of each.
double meanOfSourceMedians(const Report &report, Quantity quantity);

/// Predicts every row of `path`, with devices and hosts from `share`. Errors:
/// `rows.unknown_table` for a header of no known table, `rows.*` of the reader.
rt::StatusOr<Report> validateRows(const std::string &path, const std::string &share);

/// Weighted statistics over (error, weight).
Errors summarize(std::vector<std::pair<double, double>> errors);

template <typename Keep> Errors errorsOf(const Report &report, Quantity quantity, Keep keep) {
  auto errorOf = [&](const Comparison &row) -> std::optional<double> {
    const auto &measured = quantity == Quantity::Time ? row.time : row.memory;
    const auto &predicted = quantity == Quantity::Time ? row.predictedTime : row.predictedMemory;
    if (!measured || !predicted || !keep(row))
      return std::nullopt;
    return *predicted / *measured - 1;
  };
  std::map<std::string, double> members;
  for (const Comparison &row : report.rows)
    if (errorOf(row))
      ++members[row.source + "\n" + row.group];
  std::vector<std::pair<double, double>> errors;
  std::string worst;
  double furthest = 0;
  for (const Comparison &row : report.rows)
    if (auto error = errorOf(row)) {
      errors.push_back({*error, 1 / members[row.source + "\n" + row.group]});
      if (worst.empty() || std::abs(*error) > std::abs(furthest)) {
        worst = row.id;
        furthest = *error;
      }
    }
  Errors out = summarize(std::move(errors));
  out.groups = static_cast<int64_t>(members.size());
  out.worst = worst;
  out.worstError = furthest;
  return out;
}

} // namespace cleave::validate

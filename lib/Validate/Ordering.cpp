//===- Ordering.cpp - Are faster layouts predicted to be faster? -----------===//
//
// A planner needs the order of layouts more than their times. Points are compared inside
// a sweep alone, so that what is wrong for all of its rows does not count.
//
//===----------------------------------------------------------------------===//

#include "cleave/Validate/Validate.h"
#include <algorithm>
#include <cmath>

namespace cleave::validate {

/// Fewer layouts are no sweep.
static constexpr size_t kLeastLayouts = 3;
/// Times closer than this are not ordered by measuring them once.
static constexpr double kApart = 0.05;

namespace {
struct Point {
  double predicted = 0, measured = 0, rows = 0;
};
} // namespace

static std::vector<Point> meansOf(const std::map<std::string, Point> &layouts) {
  std::vector<Point> points;
  for (const auto &[layout, sum] : layouts)
    points.push_back({sum.predicted / sum.rows, sum.measured / sum.rows, sum.rows});
  return points;
}

static void countPairs(const std::vector<Point> &points, Ordering &out) {
  for (size_t i = 0; i < points.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const double measured = points[i].measured - points[j].measured;
      if (std::abs(measured) <= kApart * std::min(points[i].measured, points[j].measured))
        continue;
      ++out.pairs;
      out.right += measured * (points[i].predicted - points[j].predicted) > 0;
    }
}

static double regretOf(const std::vector<Point> &points) {
  const auto chosen = std::ranges::min_element(points, {}, &Point::predicted);
  const auto best = std::ranges::min_element(points, {}, &Point::measured);
  return chosen->measured / best->measured - 1;
}

Ordering orderingOf(const Report &report) {
  std::map<std::string, std::map<std::string, Point>> sweeps;
  for (const Comparison &row : report.rows)
    if (!row.sweep.empty() && row.time && row.predictedTime) {
      Point &point = sweeps[row.source + "\n" + row.sweep][row.layout];
      point.predicted += *row.predictedTime / row.sequences;
      point.measured += *row.time / row.sequences;
      ++point.rows;
    }
  Ordering out;
  std::vector<std::pair<double, double>> regrets;
  for (const auto &[name, layouts] : sweeps) {
    if (layouts.size() < kLeastLayouts)
      continue;
    const std::vector<Point> points = meansOf(layouts);
    ++out.sweeps;
    countPairs(points, out);
    regrets.emplace_back(regretOf(points), 1);
  }
  const Errors summary = summarize(std::move(regrets));
  out.medianRegret = summary.median;
  out.p90Regret = summary.p90;
  return out;
}

double meanOfSourceMedians(const Report &report, Quantity quantity) {
  std::vector<std::string> sources;
  for (const Comparison &row : report.rows)
    if (std::ranges::find(sources, row.source) == sources.end())
      sources.push_back(row.source);
  double sum = 0, count = 0;
  for (const std::string &source : sources) {
    const Errors errors =
        errorsOf(report, quantity, [&](const Comparison &row) { return row.source == source; });
    if (errors.rows == 0)
      continue;
    sum += errors.median;
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

} // namespace cleave::validate

//===- StatisticsTest.cpp - Errors of groups -------------------------------===//

#include "cleave/Validate/Validate.h"
#include <gtest/gtest.h>

namespace cleave::validate {
namespace {

TEST(Statistics, EachGroupCountsOnce) {
  Report report;
  auto add = [&](const char *group, double error) {
    Comparison row;
    row.id = row.source = "s";
    row.group = group;
    row.time = 1;
    row.predictedTime = 1 + error;
    report.rows.push_back(row);
  };
  // Three rows of one group weigh as much as the one of the other.
  for (int i = 0; i < 3; ++i)
    add("a", 0.1);
  add("b", -0.3);
  const Errors errors = errorsOf(report, Quantity::Time, [](const Comparison &) { return true; });
  EXPECT_EQ(errors.rows, 4);
  EXPECT_EQ(errors.groups, 2);
  EXPECT_NEAR(errors.mean, 0.2, 1e-12);
  EXPECT_NEAR(errors.bias, -0.1, 1e-12);
  EXPECT_NEAR(errors.median, 0.1, 1e-12);
  EXPECT_NEAR(errors.p90, 0.3, 1e-12);
  EXPECT_NEAR(errors.worstError, -0.3, 1e-12);
}

/// A row of `layout` in the sweep "s": measured and predicted seconds for `sequences`.
Comparison pointOf(const char *layout, double measured, double predicted, double sequences = 1) {
  Comparison row;
  row.source = row.sweep = "s";
  row.layout = layout;
  row.time = measured;
  row.predictedTime = predicted;
  row.sequences = sequences;
  return row;
}

TEST(Ordering, PairsFarApartAndTheChosenLayout) {
  Report report;
  // b is 3 % slower than a: no pair. c is predicted to be the fastest, and is 20 % slower than a.
  report.rows = {pointOf("a", 1, 1), pointOf("b", 1.03, 0.95), pointOf("c", 1.2, 0.9),
                 pointOf("d", 2, 3)};
  const Ordering order = orderingOf(report);
  EXPECT_EQ(order.sweeps, 1);
  EXPECT_EQ(order.pairs, 5);
  // a-d, b-d, c-d; not a-c, b-c.
  EXPECT_EQ(order.right, 3);
  EXPECT_NEAR(order.medianRegret, 0.2, 1e-12);
}

TEST(Ordering, TimesOfASequenceAndMeansOfALayout) {
  Report report;
  report.rows = {pointOf("a", 2, 1, 2), pointOf("a", 6, 3, 2), pointOf("b", 1, 2),
                 pointOf("c", 4, 4)};
  const Ordering order = orderingOf(report);
  EXPECT_EQ(order.sweeps, 1);
  // a: 2 measured, 1 predicted; b: 1 and 2.
  EXPECT_EQ(order.pairs, 3);
  EXPECT_EQ(order.right, 2);
}

TEST(Ordering, TwoLayoutsAreNoSweep) {
  Report report;
  report.rows = {pointOf("a", 1, 1), pointOf("b", 2, 1)};
  EXPECT_EQ(orderingOf(report).sweeps, 0);
}

TEST(Statistics, SourcesCountAlike) {
  Report report;
  report.rows = {pointOf("a", 1, 1.1), pointOf("b", 1, 1.1), pointOf("c", 1, 1.3)};
  report.rows.back().source = "t";
  for (Comparison &row : report.rows)
    row.group = row.layout;
  EXPECT_NEAR(meanOfSourceMedians(report, Quantity::Time), 0.2, 1e-12);
}

} // namespace
} // namespace cleave::validate

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

} // namespace
} // namespace cleave::validate

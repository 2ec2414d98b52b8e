//===- UnitsTest.cpp - Quantities and what they make -----------------------===//

#include "cleave/CostModel/Units.h"
#include <gtest/gtest.h>

namespace cleave::cost {
namespace {

template <typename A, typename B>
concept Adds = requires(A a, B b) { a + b; };

// Seconds and bytes do not add up.
static_assert(!Adds<Seconds, Bytes>);
static_assert(Adds<Seconds, Seconds>);

TEST(Units, RatesTurnAmountsIntoTime) {
  EXPECT_EQ(Bytes(6e9) / BytesPerSecond(2e9), Seconds(3));
  EXPECT_EQ(Operations(1e15) / OperationsPerSecond(5e14), Seconds(2));
  EXPECT_EQ(Seconds(3) * BytesPerSecond(2e9), Bytes(6e9));
  EXPECT_EQ(Seconds(3) / Seconds(2), 1.5);
}

TEST(Units, AboveIsNeverNegative) {
  EXPECT_EQ(above(Seconds(3), Seconds(1)), Seconds(2));
  EXPECT_EQ(above(Seconds(1), Seconds(3)), Seconds(0));
}

} // namespace
} // namespace cleave::cost

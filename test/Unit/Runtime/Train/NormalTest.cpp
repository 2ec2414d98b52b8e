// Philox against its authors' known answers; the normals against their moments
// and against being a function of the element alone.
#include "runtime/Train/Normal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

using namespace cleave::rt;

namespace {

using Words = std::array<uint32_t, 4>;

TEST(Normal, PhiloxKnownAnswers) {
  // kat_vectors of Random123, philox4x32 with 10 rounds.
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Normal, AnyPieceIsTheSame) {
  const NormalNumbers numbers(7, "model.norm.weight");
  std::vector<float> whole(101);
  numbers.fill(1000, 0.5, 2, whole);
  for (size_t first : {0, 1, 2, 57})
    for (size_t count : {0, 1, 2, 3, 44}) {
      std::vector<float> piece(count);
      numbers.fill(1000 + first, 0.5, 2, piece);
      EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + first));
    }
}

TEST(Normal, SeedAndNameMatter) {
  std::vector<float> a(8), b(8), c(8);
  NormalNumbers(1, "x").fill(0, 0, 1, a);
  NormalNumbers(2, "x").fill(0, 0, 1, b);
  NormalNumbers(1, "y").fill(0, 0, 1, c);
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
}

TEST(Normal, MomentsAreThoseOfANormal) {
  std::vector<float> x(200000);
  NormalNumbers(3, "lm_head.weight").fill(0, 0, 1, x);
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, neighbours = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    ASSERT_TRUE(std::isfinite(v));
    m1 += v;
    m2 += v * v;
    m3 += v * v * v;
    m4 += v * v * v * v;
    neighbours += i ? v * x[i - 1] : 0;
  }
  const double n = static_cast<double>(x.size());
  // Four standard errors of each moment.
  EXPECT_NEAR(m1 / n, 0, 4 * std::sqrt(1 / n));
  EXPECT_NEAR(m2 / n, 1, 4 * std::sqrt(2 / n));
  EXPECT_NEAR(m3 / n, 0, 4 * std::sqrt(15 / n));
  EXPECT_NEAR(m4 / n, 3, 4 * std::sqrt(96 / n));
  EXPECT_NEAR(neighbours / n, 0, 4 * std::sqrt(1 / n));
}

} // namespace

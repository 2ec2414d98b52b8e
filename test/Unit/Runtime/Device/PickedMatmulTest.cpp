// Products with picked matrices against plain loops in float64: odd sizes, more
// than a tile, matrices that get all rows or none, indices of other ranks' matrices;
// results poisoned before; bitwise the same for one and three workers.
#include "runtime/Device/CPU/PickedMatmul.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace cleave::rt;

namespace {

constexpr float poison = std::numeric_limits<float>::quiet_NaN();

/// How rows pick their matrices.
enum class Picks { Even, AllOne, Beyond, None };

struct Shape {
  int64_t rows, first, second, matrices;
  Picks picks = Picks::Even;
};

std::ostream &operator<<(std::ostream &out, const Shape &s) {
  return out << s.rows << " rows, " << s.first << " by " << s.second << ", " << s.matrices
             << " matrices, picks " << static_cast<int>(s.picks);
}

const Shape shapes[] = {{1, 1, 1, 1},
                        {7, 5, 3, 2},
                        {64, 16, 16, 4},
                        {210, 33, 47, 8},
                        {150, 400, 17, 3},
                        {150, 19, 801, 3},
                        {90, 770, 390, 2},
                        {200, 33, 20, 5, Picks::AllOne},
                        {130, 20, 33, 4, Picks::Beyond},
                        {66, 9, 11, 4, Picks::None}};

std::vector<float> randomFloats(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float &x : values)
    x = uniform(random);
  return values;
}

constexpr int32_t offset = 5;

/// Indices from `offset` on.
std::vector<int32_t> randomPicks(const Shape &s) {
  std::mt19937 random(11);
  std::vector<int32_t> index(s.rows);
  for (int32_t &e : index) {
    const auto even = static_cast<int32_t>(random() % s.matrices);
    switch (s.picks) {
    case Picks::Even:
      e = offset + even;
      break;
    case Picks::AllOne:
      e = offset + 1;
      break;
    case Picks::Beyond:
      e = offset - 3 + static_cast<int32_t>(random() % (s.matrices + 6));
      break;
    case Picks::None:
      e = random() % 2 ? std::numeric_limits<int32_t>::max() : -1;
      break;
    }
  }
  return index;
}

/// The upper halves of floats.
std::vector<uint16_t> upperHalves(const std::vector<float> &values) {
  std::vector<uint16_t> halves;
  for (float value : values)
    halves.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  return halves;
}

/// `values` cut to what bf16 holds, if `narrow`.
std::vector<float> cut(std::vector<float> values, bool narrow) {
  for (float &value : values)
    if (narrow)
      value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xffff0000u);
  return values;
}

/// The result on a pool of `workers`.
template <typename Problem>
std::vector<float> runPicked(const Problem &problem, unsigned workers, const std::vector<float> &a,
                             const std::vector<float> &b, const std::vector<int32_t> &index,
                             std::vector<float> c) {
  const auto shortA = upperHalves(a), shortB = upperHalves(b);
  const void *left = a.data(), *right = b.data();
  if (problem.narrow) {
    left = shortA.data();
    right = shortB.data();
  }
  ThreadPool pool(workers);
  MatmulEngine tiles(pool);
  PickedMatmulEngine engine(pool, tiles);
  auto plan = engine.prepare(problem);
  EXPECT_TRUE(plan.ok());
  // Twice: what is left of the first run does not show in the second.
  for (std::vector<float> into : {c, c}) {
    EXPECT_TRUE(engine.run(*plan, left, right, index.data(), &offset, into.data()).ok());
    c = into;
  }
  EXPECT_GT(engine.scratchBytes(), 0);
  return c;
}

void expectNear(const std::vector<float> &got, const std::vector<double> &want, double scale) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(got[i] - want[i]), 1e-6 * scale) << "element " << i; // false for NaN
}

class PickedMatmul : public testing::TestWithParam<Shape> {};

TEST_P(PickedMatmul, RowsTimesTheMatrixTheyPick) {
  const Shape &s = GetParam();
  const std::vector<int32_t> index = randomPicks(s);
  for (int64_t share : {1, 2, 3}) {
    if (s.rows % share)
      continue;
    for (auto [transposed, narrow] : {std::pair(false, false), {true, false}, {true, true}}) {
      SCOPED_TRACE(testing::Message()
                   << "share " << share << ", transposed " << transposed << ", narrow " << narrow);
      const int64_t k = s.first, n = s.second;
      PickedMatmulProblem problem{s.rows, n, k, s.matrices, share, n * k, {}};
      problem.b = transposed ? MatrixStrides{1, k} : MatrixStrides{n, 1};
      problem.narrow = narrow;
      const auto a = cut(randomFloats(s.rows / share * k, 1), narrow),
                 b = cut(randomFloats(s.matrices * n * k, 2), narrow);
      std::vector<double> want(s.rows * n, 0.0);
      for (int64_t r = 0; r < s.rows; ++r)
        if (const int64_t e = int64_t(index[r]) - offset; e >= 0 && e < s.matrices)
          for (int64_t j = 0; j < n; ++j)
            for (int64_t i = 0; i < k; ++i)
              want[r * n + j] += double(a[r / share * k + i]) *
                                 b[e * n * k + i * problem.b.row + j * problem.b.column];
      const std::vector<float> c(s.rows * n, poison);
      const auto one = runPicked(problem, 1, a, b, index, c);
      expectNear(one, want, std::sqrt(double(k)) * 4);
      const auto three = runPicked(problem, 3, a, b, index, c);
      EXPECT_EQ(std::memcmp(one.data(), three.data(), one.size() * sizeof(float)), 0);
    }
  }
}

TEST_P(PickedMatmul, OuterProductsInTheMatrixTheyPick) {
  const Shape &s = GetParam();
  const std::vector<int32_t> index = randomPicks(s);
  for (auto [shareA, shareB] : {std::pair(1, 1), {1, 2}, {3, 1}}) {
    if (s.rows % shareA || s.rows % shareB)
      continue;
    for (auto [accumulate, narrow] : {std::pair(false, false), {true, false}, {true, true}}) {
      SCOPED_TRACE(testing::Message() << "shares " << shareA << " and " << shareB << ", accumulate "
                                      << accumulate << ", narrow " << narrow);
      const int64_t m = s.first, n = s.second;
      const PickedOuterProblem problem{s.rows, m,      n,          s.matrices,
                                       shareA, shareB, accumulate, narrow};
      const auto a = cut(randomFloats(s.rows / shareA * m, 3), narrow),
                 b = cut(randomFloats(s.rows / shareB * n, 4), narrow);
      std::vector<float> c(s.matrices * m * n, poison);
      if (accumulate)
        c = randomFloats(static_cast<int64_t>(c.size()), 5);
      std::vector<double> want(c.begin(), c.end());
      if (!accumulate)
        want.assign(c.size(), 0.0);
      for (int64_t r = 0; r < s.rows; ++r)
        if (const int64_t e = int64_t(index[r]) - offset; e >= 0 && e < s.matrices)
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j)
              want[(e * m + i) * n + j] += double(a[r / shareA * m + i]) * b[r / shareB * n + j];
      const auto one = runPicked(problem, 1, a, b, index, c);
      expectNear(one, want, std::sqrt(double(s.rows)) * 4);
      const auto three = runPicked(problem, 3, a, b, index, c);
      EXPECT_EQ(std::memcmp(one.data(), three.data(), one.size() * sizeof(float)), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PickedMatmul, testing::ValuesIn(shapes));

} // namespace

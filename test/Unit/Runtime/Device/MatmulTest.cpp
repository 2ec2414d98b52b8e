// Products against plain loops in float64: all transposes, odd sizes, batches
// with strides, accumulation; results poisoned before, gaps watched; bitwise the
// same for one and two workers; no thread but the pool's.
#include "runtime/Device/CPU/Matmul.h"
#include "runtime/Device/CPU/MatmulTiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>

using namespace cleave::rt;

namespace {

constexpr float poison = std::numeric_limits<float>::quiet_NaN();

struct Buffers {
  std::vector<float> a, b, c;
};

int64_t reach(int64_t rows, int64_t columns, MatrixStrides s, const MatmulProblem &p,
              int64_t MatmulBatch::*stride) {
  int64_t last = (rows - 1) * s.row + (columns - 1) * s.column;
  for (const MatmulBatch &batch : p.batch)
    last += (batch.count - 1) * (batch.*stride);
  return last + 1;
}

Buffers randomBuffers(const MatmulProblem &p, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Buffers buffers;
  buffers.a.resize(reach(p.m, p.k, p.a, p, &MatmulBatch::strideA));
  buffers.b.resize(reach(p.k, p.n, p.b, p, &MatmulBatch::strideB));
  buffers.c.assign(reach(p.m, p.n, p.c, p, &MatmulBatch::strideC), poison);
  for (float &x : buffers.a)
    x = uniform(random);
  for (float &x : buffers.b)
    x = uniform(random);
  return buffers;
}

/// Calls visit(offset a, offset b, offset c) for each matrix of the batch.
template <typename Visit> void eachMatrix(const MatmulProblem &p, Visit visit) {
  int64_t total = 1;
  for (const MatmulBatch &batch : p.batch)
    total *= batch.count;
  for (int64_t index = 0; index < total; ++index) {
    int64_t rest = index, a = 0, b = 0, c = 0;
    for (size_t d = p.batch.size(); d-- > 0;) {
      const int64_t at = rest % p.batch[d].count;
      rest /= p.batch[d].count;
      a += at * p.batch[d].strideA;
      b += at * p.batch[d].strideB;
      c += at * p.batch[d].strideC;
    }
    visit(a, b, c);
  }
}

void runAndCompare(const MatmulProblem &p, unsigned seed) {
  SCOPED_TRACE(testing::Message() << p.m << " x " << p.n << " x " << p.k << " a(" << p.a.row << ","
                                  << p.a.column << ") b(" << p.b.row << "," << p.b.column << ") c("
                                  << p.c.row << "," << p.c.column << ") acc " << p.accumulate);
  Buffers buffers = randomBuffers(p, seed);
  if (p.accumulate)
    eachMatrix(p, [&](int64_t, int64_t, int64_t c) {
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < p.n; ++j)
          buffers.c[c + i * p.c.row + j * p.c.column] = 0.25f * static_cast<float>(i % 7 - j % 3);
    });
  const std::vector<float> before = buffers.c;

  std::vector<float> results[2];
  for (unsigned workers : {1u, 2u}) {
    ThreadPool pool(workers);
    MatmulEngine engine(pool);
    auto plan = engine.prepare(p);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    results[workers - 1] = before;
    const Status status =
        engine.run(**plan, buffers.a.data(), buffers.b.data(), results[workers - 1].data());
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  ASSERT_EQ(std::memcmp(results[0].data(), results[1].data(), 4 * results[0].size()), 0)
      << "one and two workers differ";

  std::vector<char> written(before.size(), 0);
  int64_t wrong = 0;
  eachMatrix(p, [&](int64_t a, int64_t b, int64_t c) {
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        const int64_t at = c + i * p.c.row + j * p.c.column;
        double sum = p.accumulate ? before[at] : 0.0;
        double magnitude = std::abs(sum);
        for (int64_t x = 0; x < p.k; ++x) {
          const double term = static_cast<double>(buffers.a[a + i * p.a.row + x * p.a.column]) *
                              buffers.b[b + x * p.b.row + j * p.b.column];
          sum += term;
          magnitude += std::abs(term);
        }
        written[at] = 1;
        wrong += !(std::abs(results[0][at] - sum) <= 5e-7 * magnitude);
      }
  });
  EXPECT_EQ(wrong, 0);
  for (size_t i = 0; i < before.size(); ++i)
    if (!written[i]) {
      ASSERT_EQ(std::memcmp(&results[0][i], &before[i], 4), 0) << "gap at " << i << " was written";
    }
}

MatmulProblem packed(int64_t m, int64_t n, int64_t k, bool transposeA, bool transposeB,
                     bool transposeC, int64_t gap = 0) {
  auto strides = [&](int64_t rows, int64_t columns, bool transpose) {
    return transpose ? MatrixStrides{1, rows + gap} : MatrixStrides{columns + gap, 1};
  };
  MatmulProblem p;
  p.m = m;
  p.n = n;
  p.k = k;
  p.a = strides(m, k, transposeA);
  p.b = strides(k, n, transposeB);
  p.c = strides(m, n, transposeC);
  return p;
}

/// The bf16 nearest to a number that is no NaN, ties to even.
uint16_t toBf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float fromBf16(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float number;
  std::memcpy(&number, &bits, 4);
  return number;
}

std::vector<uint16_t> toBf16(const std::vector<float> &numbers) {
  std::vector<uint16_t> out;
  for (float x : numbers)
    out.push_back(toBf16(x));
  return out;
}

/// Products of bf16, for which f32 stands in where oneDNN has none on a processor.
void runNarrowAndCompare(MatmulProblem p, unsigned seed) {
  SCOPED_TRACE(testing::Message() << p.m << " x " << p.n << " x " << p.k << " a(" << p.a.row << ","
                                  << p.a.column << ") b(" << p.b.row << "," << p.b.column << ") c("
                                  << p.c.row << "," << p.c.column << ") acc " << p.accumulate
                                  << " narrow " << p.types.narrowResult);
  Buffers buffers = randomBuffers(p, seed);
  if (p.accumulate)
    buffers.c.assign(buffers.c.size(), 0.75f);
  const std::vector<uint16_t> a = toBf16(buffers.a), b = toBf16(buffers.b);
  std::vector<uint16_t> narrow(buffers.c.size(), 0x7fc0);
  void *c = p.types.narrowResult ? static_cast<void *>(narrow.data()) : buffers.c.data();
  ThreadPool pool(2);
  MatmulEngine engine(pool);
  auto plan = engine.prepare(p);
  ASSERT_TRUE(plan.ok());
  const Status status = engine.run(**plan, a.data(), b.data(), c);
  EXPECT_TRUE(status.ok());
  int64_t wrong = 0;
  eachMatrix(p, [&](int64_t atA, int64_t atB, int64_t atC) {
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = p.accumulate ? 0.75 : 0, magnitude = sum;
        for (int64_t x = 0; x < p.k; ++x) {
          const double term = static_cast<double>(fromBf16(a[atA + i * p.a.row + x * p.a.column])) *
                              fromBf16(b[atB + x * p.b.row + j * p.b.column]);
          sum += term;
          magnitude += std::abs(term);
        }
        const int64_t at = atC + i * p.c.row + j * p.c.column;
        const double got = p.types.narrowResult ? fromBf16(narrow[at]) : buffers.c[at];
        const double rounding = p.types.narrowResult ? std::abs(sum) / 256 : 0;
        wrong += !(std::abs(got - sum) <= rounding + 1e-6 * magnitude);
      }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Matmul, NarrowElements) {
  unsigned seed = 200;
  for (const auto &[m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                                {1, 17, 3},
                                {17, 1, 5},
                                {17, 19, 23},
                                {64, 48, 255},
                                {257, 401, 65},
                                {300, 770, 33}})
    for (int form = 0; form < 16; ++form) {
      MatmulProblem p = packed(m, n, k, form & 1, form & 2, form & 4);
      p.types = {.narrowOperands = true, .narrowResult = (form & 8) != 0};
      runNarrowAndCompare(p, ++seed);
      p.accumulate = !p.types.narrowResult;
      runNarrowAndCompare(p, ++seed);
    }
  MatmulProblem heads = packed(5, 6, 7, false, true, false);
  heads.types = {.narrowOperands = true, .narrowResult = true};
  heads.batch = {{3, 35, 42, 30}};
  runNarrowAndCompare(heads, ++seed);
}

TEST(Matmul, AllTransposesOverOddSizes) {
  const int64_t sizes[][3] = {{1, 1, 1},   {1, 17, 3},   {17, 1, 5},    {3, 5, 1},   {1, 1, 33},
                              {2, 3, 257}, {17, 19, 23}, {64, 48, 255}, {31, 257, 7}};
  unsigned seed = 0;
  for (const auto &size : sizes)
    for (int form = 0; form < 16; ++form) {
      MatmulProblem p = packed(size[0], size[1], size[2], form & 1, form & 2, form & 8, form & 4);
      runAndCompare(p, ++seed);
      p.accumulate = true;
      runAndCompare(p, ++seed);
    }
}

TEST(Matmul, SplitProductsWithShortEdges) {
  unsigned seed = 100;
  for (const auto &[m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{257, 401, 65},
                                {129, 193, 127},
                                {1, 5003, 511},
                                {4099, 3, 255},
                                {300, 770, 33}})
    for (int form = 0; form < 8; ++form) {
      MatmulProblem p = packed(m, n, k, form & 1, form & 2, form & 4, 3);
      p.accumulate = form & 1;
      const TileGrid grid = chooseTiles(m, n, k);
      EXPECT_TRUE(grid.tilesM * grid.tilesN > 1 || 2 * m * n * k <= 4000000);
      runAndCompare(p, ++seed);
    }
}

TEST(Matmul, BatchesWithStridesAndSharedOperands) {
  // Heads inside rows, as attention has them: [2, 5 positions, 3 heads, 7].
  MatmulProblem scores;
  scores.m = 5;
  scores.n = 5;
  scores.k = 7;
  scores.a = {21, 1};
  scores.b = {1, 21};
  scores.c = {5, 1};
  scores.batch = {{2, 105, 105, 75}, {3, 7, 7, 25}};
  runAndCompare(scores, 7);
  scores.accumulate = true;
  runAndCompare(scores, 8);

  MatmulProblem shared = packed(150, 140, 130, false, true, false);
  shared.batch = {{3, 150 * 130, 0, 150 * 140}};
  runAndCompare(shared, 9);

  MatmulProblem many = packed(9, 8, 7, true, false, false);
  many.batch = {{1000, 63, 56, 72}};
  runAndCompare(many, 10);
}

TEST(Matmul, EmptySizes) {
  ThreadPool pool(2);
  MatmulEngine engine(pool);
  std::vector<float> a(64, 1), b(64, 1), c(64, poison);
  MatmulProblem p = packed(4, 4, 0, false, false, false);
  p.batch = {{2, 0, 0, 32}};
  ASSERT_TRUE(engine.run(*engine.prepare(p).value(), a.data(), b.data(), c.data()).ok());
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(c[i], 0);
    EXPECT_EQ(c[32 + i], 0);
    EXPECT_TRUE(std::isnan(c[16 + i]));
  }
  p.accumulate = true;
  c.assign(64, 3);
  ASSERT_TRUE(engine.run(*engine.prepare(p).value(), a.data(), b.data(), c.data()).ok());
  EXPECT_EQ(c, std::vector<float>(64, 3));
  ASSERT_TRUE(engine
                  .run(*engine.prepare(packed(0, 4, 4, false, false, false)).value(), a.data(),
                       b.data(), c.data())
                  .ok());
  EXPECT_EQ(c, std::vector<float>(64, 3));
}

TEST(Matmul, RefusesStridesItCannotUse) {
  ThreadPool pool(1);
  MatmulEngine engine(pool);
  MatmulProblem p = packed(4, 4, 4, false, false, false);
  p.a = {8, 2};
  auto plan = engine.prepare(p);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().kind, "device.matmul_refused");
  p.a = {3, 1};
  EXPECT_FALSE(engine.prepare(p).ok());
}

int64_t threadsOfThisProcess() {
  int64_t count = 0;
  for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

TEST(Matmul, StartsNoThreadsOfItsOwnAndReusesPrimitives) {
  ThreadPool pool(2);
  const int64_t before = threadsOfThisProcess();
  MatmulEngine engine(pool);
  const MatmulProblem p = packed(512, 768, 512, false, true, false);
  Buffers buffers = randomBuffers(p, 1);
  const MatmulPlan *first = engine.prepare(p).value();
  const size_t compiled = engine.primitiveCount();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(engine.prepare(p).value(), first);
    ASSERT_TRUE(engine.run(*first, buffers.a.data(), buffers.b.data(), buffers.c.data()).ok());
  }
  EXPECT_EQ(engine.primitiveCount(), compiled);
  EXPECT_LE(compiled, 4u);
  EXPECT_EQ(threadsOfThisProcess(), before);
}

} // namespace

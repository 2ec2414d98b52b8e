//===- AttentionTest.cpp - generated attention against float64 loops ------===//

#include "KernelHarness.h"
#include "cleave/Target/CPU/AttentionKernel.h"
#include "mlir/IR/MLIRContext.h"
#include "runtime/Schema/Layout.h"
#include "runtime/Schema/TokenOrder.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>

using namespace cleave;
using namespace cleave::test;
using cpu::AttentionKernel;
using cpu::AttentionSizes;

namespace {

using Doubles = std::vector<double>;
using Builder = decltype(&cpu::buildAttentionForward);

size_t querySize(const AttentionSizes &s) {
  return s.batch * s.sequence * s.kvHeads * s.group * s.headDim;
}
size_t rowCount(const AttentionSizes &s) { return querySize(s) / s.headDim; }
size_t keySize(const AttentionSizes &s) { return s.batch * s.keyRows() * s.kvHeads * s.headDim; }
size_t valueSize(const AttentionSizes &s) { return keySize(s) / s.headDim * s.valueWidth(); }

/// As bf16 holds them.
Floats rounded(const Floats &values) {
  Floats halves = unpackBf16(packBf16(values));
  halves.resize(values.size());
  return halves;
}

/// Position of out among the operands of the kernels of gradients.
constexpr unsigned kOutOperand = 3;

/// Inputs, and what attention makes of them in float64. Where the sizes say that operands of
/// the kernels of gradients are of bf16, inputs are what bf16 holds, and gradients are those
/// with out as it is read back.
struct Reference {
  AttentionSizes s;
  Floats q, k, v, g, sinks;
  Doubles out, lse, dq, dk, dv;
  /// Of queries and keys, [batch, rows]; empty: the rows' numbers.
  Ints queryAt, keyAt;

  Reference(const AttentionSizes &sizes, float magnitude, Ints queryPositions = {},
            Ints keyPositions = {})
      : s(sizes), q(normal(querySize(s), 1, magnitude)), k(normal(keySize(s), 2, magnitude)),
        v(normal(valueSize(s), 3)), g(normal(rowCount(s) * s.valueWidth(), 4)),
        sinks(normal(s.sinks ? s.kvHeads * s.group : 0, 5, 2)), out(g.size()), lse(rowCount(s)),
        dq(q.size()), dk(k.size()), dv(v.size()), queryAt(std::move(queryPositions)),
        keyAt(std::move(keyPositions)) {
    if (s.narrow != 0)
      for (Floats *values : {&q, &k, &v, &g})
        *values = rounded(*values);
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.kvHeads; ++h)
        for (int64_t i = 0; i < s.group * s.sequence; ++i)
          computeRow(b, h, i / s.sequence, i % s.sequence);
  }

  void computeRow(int64_t b, int64_t h, int64_t group, int64_t i) {
    const int64_t width = s.headDim, wide = s.valueWidth();
    const size_t row = ((b * s.sequence + i) * s.kvHeads + h) * s.group + group;
    auto keyRow = [&](int64_t j) { return ((b * s.keyRows() + j) * s.kvHeads + h) * width; };
    auto valueRow = [&](int64_t j) { return ((b * s.keyRows() + j) * s.kvHeads + h) * wide; };
    const double sink = s.sinks ? sinks[h * s.group + group] : -INFINITY;
    const int64_t at = queryAt.empty() ? i : queryAt[b * s.sequence + i];
    Ints seen;
    for (int64_t j = 0; j < s.keyRows(); ++j)
      if (int64_t other = keyAt.empty() ? j : keyAt[b * s.keyRows() + j];
          other <= at && (s.window == 0 || other > at - s.window))
        seen.push_back(static_cast<int32_t>(j));
    if (seen.empty()) {
      lse[row] = s.sinks ? sink : 0;
      return;
    }
    Doubles score(s.keyRows());
    double most = sink, sum = 0, delta = 0;
    for (int64_t j : seen) {
      for (int64_t d = 0; d < width; ++d)
        score[j] += double(q[row * width + d]) * k[keyRow(j) + d];
      score[j] *= s.scale;
      if (s.cap > 0)
        score[j] = s.cap * std::tanh(score[j] / s.cap);
      most = std::max(most, score[j]);
    }
    for (int64_t j : seen)
      sum += std::exp(score[j] - most);
    sum += s.sinks ? std::exp(sink - most) : 0;
    lse[row] = most + std::log(sum);
    for (int64_t j : seen)
      for (int64_t d = 0; d < wide; ++d)
        out[row * wide + d] += std::exp(score[j] - lse[row]) * v[valueRow(j) + d];
    Floats kept(out.begin() + row * wide, out.begin() + (row + 1) * wide);
    const bool isRounded = (s.narrow >> kOutOperand & 1) != 0;
    kept = isRounded ? rounded(kept) : kept;
    for (int64_t d = 0; d < wide; ++d)
      delta += (isRounded ? kept[d] : out[row * wide + d]) * g[row * wide + d];
    for (int64_t j : seen) {
      double p = std::exp(score[j] - lse[row]), product = 0;
      for (int64_t d = 0; d < wide; ++d) {
        product += double(g[row * wide + d]) * v[valueRow(j) + d];
        dv[valueRow(j) + d] += p * g[row * wide + d];
      }
      double slope = s.scale;
      if (s.cap > 0)
        slope *= 1 - score[j] / s.cap * (score[j] / s.cap);
      double ds = slope * p * (product - delta);
      for (int64_t d = 0; d < width; ++d) {
        dq[row * width + d] += ds * k[keyRow(j) + d];
        dk[keyRow(j) + d] += ds * q[row * width + d];
      }
    }
  }
};

/// Compiles one kernel for `sizes` and runs it as the harness does: its loops are laid
/// out for `blocking`, the code is always for the harness's profile.
std::vector<Floats> runAttention(Builder build, const AttentionSizes &sizes,
                                 const std::vector<Operand> &operands,
                                 const cpu::Profile &blocking = testProfile()) {
  mlir::DialectRegistry registry;
  cpu::registerKernelDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  auto kernel = build(*module, "attention", sizes, blocking);
  if (mlir::failed(kernel)) {
    ADD_FAILURE() << "the kernel was not built";
    return std::vector<Floats>(operands.size());
  }
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  CompiledKernel compiled(text, kernel->symbol);
  return run(compiled, kernel->extent, operands);
}

Floats toFloats(const Doubles &values) { return Floats(values.begin(), values.end()); }

/// Compares each row of `width` elements with a tolerance relative to the largest
/// magnitude in it, but not below that of a typical row. Where all is zero (a lone
/// key's score has no gradient) it is what two terms of size 1 leave of each other. What is
/// `narrow` may be off by half of bf16's last place more, at most 2^-8 of itself.
void expectRows(const Floats &got, const Doubles &want, int64_t width, double relative, bool narrow,
                const std::string &what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double square = 0;
  for (double value : want)
    square += value * value;
  const double typical = square == 0 ? 1 : std::sqrt(square / double(want.size()));
  int shown = 0;
  for (size_t row = 0; row < want.size() / width; ++row) {
    double most = typical;
    for (int64_t d = 0; d < width; ++d)
      most = std::max(most, std::abs(want[row * width + d]));
    for (size_t i = row * width; i < (row + 1) * width; ++i) {
      const double rounding = narrow ? std::ldexp(std::abs(want[i]), -8) : 0;
      if (!(std::abs(got[i] - want[i]) <= relative * most + rounding) && shown++ < 5)
        ADD_FAILURE() << what << "[" << row << ", " << i - row * width << "] is " << got[i]
                      << ", not " << want[i] << " (row's scale " << most << ")";
    }
  }
}

/// What is of bf16 in memory, by kernel; see AttentionSizes.
struct Narrow {
  unsigned forward = 0, query = 0, keyValue = 0;
  bool results() const { return (forward >> 3 & 1) != 0; }
};

/// Runs all three kernels; each backward kernel gets the reference's out and lse, so
/// that a wrong kernel is the one that fails.
void expectAttention(const Reference &want, double tolerance,
                     const cpu::Profile &blocking = testProfile(), Narrow narrow = {}) {
  const AttentionSizes &s = want.s;
  auto run = [&](Builder build, unsigned types, const std::vector<Floats> &read,
                 std::vector<size_t> sizes) {
    auto isNarrow = [&](size_t i) { return (types >> i & 1) != 0; };
    const bool forward = read.size() == 3;
    std::vector<Operand> inputs;
    for (size_t i = 0; i < read.size(); ++i)
      inputs.push_back(isNarrow(i) ? in(packBf16(read[i])) : in(read[i]));
    if (s.hasPositions())
      inputs.insert(inputs.end(), {in(want.queryAt), in(want.keyAt)});
    if (forward && s.sinks)
      inputs.push_back(in(want.sinks));
    AttentionSizes built = s;
    built.sinks = forward && s.sinks; // they are in lse for the others
    built.narrow = types;
    for (size_t i = 0; i < sizes.size(); ++i)
      inputs.push_back(test::out(isNarrow(read.size() + i) ? sizes[i] / 2 : sizes[i]));
    auto results = runAttention(build, built, inputs, blocking);
    for (size_t i = 0; i < sizes.size(); ++i)
      if (isNarrow(read.size() + i)) {
        Ints words(results[i].size());
        std::memcpy(words.data(), results[i].data(), 4 * words.size());
        results[i] = unpackBf16(words);
      }
    return results;
  };
  const Floats out = toFloats(want.out), lse = toFloats(want.lse);
  auto forward = run(cpu::buildAttentionForward, narrow.forward, {want.q, want.k, want.v},
                     {out.size(), lse.size()});
  expectRows(forward[0], want.out, s.valueWidth(), tolerance, narrow.results(), "out");
  // That of a query that sees nothing means nothing.
  for (size_t i = 0; i < lse.size(); ++i)
    if (want.lse[i] == 0 && !s.sinks)
      forward[1][i] = 0;
  expectRows(forward[1], want.lse, 1, tolerance, false, "lse");
  const std::vector<Floats> inputs = {want.q, want.k, want.v, out, lse, want.g};
  auto query = run(cpu::buildAttentionBackwardQuery, narrow.query, inputs, {want.q.size()});
  expectRows(query[0], want.dq, s.headDim, tolerance, narrow.results(), "dq");
  auto keyValue = run(cpu::buildAttentionBackwardKeyValue, narrow.keyValue, inputs,
                      {want.k.size(), want.v.size()});
  expectRows(keyValue[0], want.dk, s.headDim, tolerance, narrow.results(), "dk");
  expectRows(keyValue[1], want.dv, s.valueWidth(), tolerance, narrow.results(), "dv");
}

void expectAttention(const AttentionSizes &s, float magnitude, double tolerance,
                     const cpu::Profile &blocking = testProfile()) {
  expectAttention(Reference(s, magnitude), tolerance, blocking);
}

class Attention : public testing::TestWithParam<AttentionSizes> {};

TEST_P(Attention, AgreesWithFloat64) {
  AttentionSizes s = GetParam();
  s.scale = 1 / std::sqrt(double(s.headDim));
  expectAttention(s, 1, 1e-5);
}

// Every remainder of the tiles (48 rows, micro-tiles of 6 x 16), of the head
// dimension, and every kind of head.
INSTANTIATE_TEST_SUITE_P(
    Sizes, Attention,
    testing::Values(AttentionSizes{1, 1, 1, 1, 16}, AttentionSizes{2, 3, 2, 1, 6},
                    AttentionSizes{2, 17, 3, 2, 1}, AttentionSizes{1, 49, 2, 2, 24},
                    AttentionSizes{3, 64, 2, 4, 16}, AttentionSizes{1, 96, 1, 1, 128},
                    AttentionSizes{1, 97, 1, 2, 80}, AttentionSizes{1, 255, 1, 2, 64},
                    AttentionSizes{1, 256, 2, 1, 33}, AttentionSizes{1, 257, 1, 1, 64},
                    AttentionSizes{1, 1024, 1, 1, 64}),
    [](const testing::TestParamInfo<AttentionSizes> &info) {
      const AttentionSizes &s = info.param;
      return "b" + std::to_string(s.batch) + "_s" + std::to_string(s.sequence) + "_h" +
             std::to_string(s.kvHeads) + "_g" + std::to_string(s.group) + "_d" +
             std::to_string(s.headDim);
    });

// Operands are widened, which is exact, and all that is made of them is f32: with the rounded
// operands in float64 the bound is that of f32 kernels. A result that is written in bf16 is
// rounded once, behind all sums. The only rounded value that enters a sum is out, read back
// by the kernels of gradients: `delta` in the reference is made of it too.
TEST(NarrowAttention, AgreesWithFloat64) {
  const Narrow operands{0b00111, 0b0100111, 0b00100111}, all{0b01111, 0b1101111, 0b11101111};
  Ints queries, keys;
  for (int32_t i = 0; i < 122; ++i)
    queries.push_back(i % 61 * 37 % 83);
  for (int32_t i = 0; i < 234; ++i)
    keys.push_back(20 + i % 117 * 53 % 101);
  AttentionSizes plain{2, 17, 3, 2, 6, 0.4}, tiles{1, 257, 2, 2, 64, 0.125},
      odd{2, 98, 2, 1, 33, 0.2, 40, 0.7}, placed{2, 61, 2, 2, 24, 0.2, 9, 0, 117, 20, true};
  for (AttentionSizes s : {plain, tiles, odd, placed})
    for (const Narrow &narrow : {operands, all}) {
      SCOPED_TRACE(testing::Message() << "rows " << s.sequence << ", width " << s.headDim
                                      << (narrow.results() ? ", results too" : ""));
      s.narrow = narrow.query;
      const Reference want(s, 1, s.hasPositions() ? queries : Ints(),
                           s.hasPositions() ? keys : Ints());
      for (const cpu::Profile &blocking : {testProfile(), cpu::Profile::avx512()})
        expectAttention(want, 2e-5, blocking, narrow);
    }
}

// Windows within a tile, of a tile, over several, wider than the sequence; with every
// remainder of the sequence.
class WindowedAttention : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};

TEST_P(WindowedAttention, AgreesWithFloat64) {
  auto [sequence, window] = GetParam();
  AttentionSizes s{1, sequence, 2, 2, 24, 0.3, window};
  expectAttention(s, 1, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Sizes, WindowedAttention,
                         testing::Values(std::pair(48, 1), std::pair(97, 47), std::pair(97, 49),
                                         std::pair(230, 2), std::pair(230, 48), std::pair(230, 100),
                                         std::pair(48, 1000)));

TEST(CappedAttention, AgreesWithFloat64) {
  expectAttention({1, 130, 1, 2, 40, 0.4, 31, 0.5}, 1, 2e-5);
  expectAttention({1, 100, 1, 1, 40, 0.4, 0, 50.0}, 1, 2e-5);
}

TEST(CappedAttention, WindowAndCapInSixteenLanes) {
  expectAttention({1, 205, 1, 2, 40, 0.15, 60, 2.0}, 1, 2e-5, cpu::Profile::avx512());
}

/// Keys of one width, values of another: DeepSeek's, odd ones, wider values.
class WideAttention : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};

TEST_P(WideAttention, AgreesWithFloat64) {
  auto [keys, values] = GetParam();
  AttentionSizes s{2, 97, 2, 2, keys, 1 / std::sqrt(double(keys))};
  s.valueDim = values;
  expectAttention(s, 1, 1e-5);
  s.window = 31;
  s.cap = 3.0;
  s.sinks = true;
  expectAttention(s, 1, 2e-5);
}

INSTANTIATE_TEST_SUITE_P(Sizes, WideAttention,
                         testing::Values(std::pair(192, 128), std::pair(24, 16), std::pair(20, 33),
                                         std::pair(1, 40), std::pair(17, 1), std::pair(64, 128)));

TEST(Sinks, AgreeWithFloat64) {
  for (int64_t sequence : {7, 130}) {
    AttentionSizes s{2, sequence, 3, 2, 24, 0.3};
    s.sinks = true;
    expectAttention(s, 1, 1e-5);
  }
  AttentionSizes s{1, 205, 1, 3, 40, 0.15, 60};
  s.sinks = true;
  expectAttention(s, 1, 2e-5, cpu::Profile::avx512());
}

// Far above and far below all scores: all weight, or none.
TEST(Sinks, OfAnySize) {
  AttentionSizes s{1, 60, 2, 1, 16, 0.25};
  s.sinks = true;
  const Reference plain(s, 1);
  auto run = [&](float sink) {
    return runAttention(cpu::buildAttentionForward, s,
                        {in(plain.q), in(plain.k), in(plain.v), in(Floats{sink, -sink}),
                         out(plain.q.size()), out(plain.lse.size())});
  };
  auto got = run(200);
  for (size_t row = 0; row < 120; row += 2)
    for (size_t d = 0; d < 16; ++d)
      ASSERT_EQ(got[0][row * 16 + d], 0.0f);
  EXPECT_EQ(got[1][0], 200.0f);
  s.sinks = false;
  auto without = runAttention(
      cpu::buildAttentionForward, s,
      {in(plain.q), in(plain.k), in(plain.v), out(plain.q.size()), out(plain.lse.size())});
  for (size_t row = 1; row < 120; row += 2)
    for (size_t d = 0; d < 16; ++d)
      ASSERT_EQ(got[0][row * 16 + d], without[0][row * 16 + d]);
}

/// Rank `rank`'s rows of a sequence in zig-zag order over `ranks`, `batch` times; behind
/// its last one position 0.
Ints blockOfOrder(int64_t batch, int64_t length, int64_t ranks, int64_t rank) {
  const auto order = rt::zigzagOrder(length, ranks);
  const int64_t block = rt::blockSize(length, ranks);
  Ints positions;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = rank * block; i < (rank + 1) * block; ++i)
      positions.push_back(i < length ? static_cast<int32_t>(order[i]) : 0);
  return positions;
}

Ints wholeOrder(int64_t batch, int64_t length, int64_t ranks) {
  const auto order = rt::zigzagOrder(length, ranks);
  Ints positions;
  for (int64_t b = 0; b < batch; ++b)
    positions.insert(positions.end(), order.begin(), order.end());
  return positions;
}

// What a rank of a sequence in zig-zag order computes: queries of its block, all keys.
struct Placed {
  int64_t length, ranks, rank, window;
};
class PlacedAttention : public testing::TestWithParam<Placed> {};

TEST_P(PlacedAttention, AgreesWithFloat64) {
  const auto [length, ranks, rank, window] = GetParam();
  AttentionSizes s{2, rt::blockSize(length, ranks), 2, 2, 24, 0.3, window, 0, length};
  expectAttention(
      Reference(s, 1, blockOfOrder(2, length, ranks, rank), wholeOrder(2, length, ranks)), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Orders, PlacedAttention,
                         testing::Values(Placed{1, 1, 0, 0}, Placed{97, 1, 0, 0},
                                         Placed{200, 2, 0, 0}, Placed{200, 2, 1, 0},
                                         Placed{301, 3, 2, 0}, Placed{205, 7, 6, 0},
                                         Placed{301, 2, 1, 60}, Placed{230, 3, 0, 5},
                                         Placed{13, 5, 4, 0}),
                         [](const testing::TestParamInfo<Placed> &info) {
                           const Placed &p = info.param;
                           return "s" + std::to_string(p.length) + "_rank" +
                                  std::to_string(p.rank) + "of" + std::to_string(p.ranks) +
                                  (p.window ? "_w" + std::to_string(p.window) : "");
                         });

TEST(AttentionAtPositions, SixteenLanes) {
  AttentionSizes s{1, 103, 2, 2, 40, 0.15, 60, 2.0, 205};
  expectAttention(Reference(s, 1, blockOfOrder(1, 205, 2, 1), wholeOrder(1, 205, 2)), 2e-5,
                  cpu::Profile::avx512());
}

TEST(AttentionAtPositions, WideValuesInSixteenLanes) {
  AttentionSizes s{1, 103, 2, 2, 40, 0.15, 60, 0, 205, 24};
  expectAttention(Reference(s, 1, blockOfOrder(1, 205, 2, 1), wholeOrder(1, 205, 2)), 2e-5,
                  cpu::Profile::avx512());
}

// Any positions at all: repeated ones, keys that nobody sees, queries that see nothing.
TEST(AttentionAtPositions, AnyPositions) {
  AttentionSizes s{1, 61, 2, 1, 40, 0.3, 0, 0, 117};
  Ints queries, keys;
  for (int32_t i = 0; i < 61; ++i)
    queries.push_back(i * 37 % 83);
  for (int32_t i = 0; i < 117; ++i)
    keys.push_back(20 + i * 53 % 101);
  expectAttention(Reference(s, 1, queries, keys), 1e-5);
  s.window = 9;
  s.cap = 0.7;
  expectAttention(Reference(s, 1, queries, keys), 2e-5);
  s.sinks = true;
  s.valueDim = 19;
  expectAttention(Reference(s, 1, queries, keys), 2e-5);
}

// Tiles that a rank's queries cannot see are not read: a NaN there does not show.
TEST(AttentionAtPositions, HiddenTilesAreNotRead) {
  AttentionSizes s{1, 96, 1, 1, 16, 0.25, 0, 0, 384};
  const auto positions = [](int32_t first, int32_t count) {
    Ints list(count);
    std::iota(list.begin(), list.end(), first);
    return list;
  };
  Floats q = normal(querySize(s), 1), k = normal(keySize(s), 2), v = normal(keySize(s), 3);
  std::fill(k.begin() + 192 * 16, k.end(), std::numeric_limits<float>::quiet_NaN());
  auto got = runAttention(
      cpu::buildAttentionForward, s,
      {in(q), in(k), in(v), in(positions(96, 96)), in(positions(0, 384)), out(q.size()), out(96)});
  for (float each : got[0])
    ASSERT_FALSE(std::isnan(each));
}

TEST(AttentionSizesTest, CountVisiblePairs) {
  // 8 positions: 36 pairs, 26 within a window of 4.
  EXPECT_EQ((AttentionSizes{1, 8, 1, 1, 1}.productFlops(1)), 2 * 36);
  EXPECT_EQ((AttentionSizes{1, 8, 1, 1, 1, 1, 4}.productFlops(1)), 2 * 26);
  EXPECT_EQ((AttentionSizes{1, 8, 1, 1, 1, 1, 9}.productFlops(1)), 2 * 36);
  // Half of the queries, dealt out evenly.
  EXPECT_EQ((AttentionSizes{1, 4, 1, 1, 1, 1, 0, 0, 8}.productFlops(1)), 36);
}

// What lies before the window is not read either.
TEST(AttentionRange, PastOfTheWindowIsNotRead) {
  AttentionSizes s{1, 100, 1, 1, 16, 0.25, 20};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Floats q = normal(querySize(s), 1), k = normal(keySize(s), 2), v = normal(keySize(s), 3);
  auto clean =
      runAttention(cpu::buildAttentionForward, s, {in(q), in(k), in(v), out(q.size()), out(100)});
  std::fill(k.begin(), k.begin() + 40 * 16, nan);
  auto dirty =
      runAttention(cpu::buildAttentionForward, s, {in(q), in(k), in(v), out(q.size()), out(100)});
  for (size_t i = 59 * 16; i < q.size(); ++i)
    ASSERT_EQ(clean[0][i], dirty[0][i]) << i;
  EXPECT_TRUE(std::isnan(dirty[0][58 * 16])) << "a NaN that is seen must show";
}

// Scores of both signs up to about 80 and more: exponentials of differences only.
TEST(AttentionRange, LargeScoresStayExact) {
  AttentionSizes s{1, 130, 1, 2, 64};
  s.scale = 1;
  const Reference want(s, 1.8f);
  const double most = *std::max_element(want.lse.begin(), want.lse.end());
  ASSERT_GT(most, 80);
  // A score near 100 is known to 1e-5 at best, and so is its exponential.
  expectAttention(s, 1.8f, 2e-4);
}

TEST(AttentionRange, AllScoresVeryNegative) {
  AttentionSizes s{1, 60, 1, 1, 16};
  Floats q(querySize(s), -5.0f), k(keySize(s), 1.0f), v = normal(keySize(s), 7);
  auto got =
      runAttention(cpu::buildAttentionForward, s, {in(q), in(k), in(v), out(q.size()), out(60)});
  // Equal scores: each row is the mean of the values so far.
  Doubles want(q.size()), lse(60);
  for (int64_t i = 0; i < 60; ++i) {
    lse[i] = -80 + std::log(i + 1.0);
    for (int64_t d = 0; d < 16; ++d)
      for (int64_t j = 0; j <= i; ++j)
        want[i * 16 + d] += v[j * 16 + d] / double(i + 1);
  }
  expectRows(got[0], want, 16, 1e-5, false, "out");
  expectRows(got[1], lse, 1, 1e-6, false, "lse");
}

// What a query may not see must not reach it, not even as NaN * 0.
TEST(AttentionRange, FutureIsNotRead) {
  AttentionSizes s{1, 100, 1, 1, 16};
  s.scale = 0.25;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Floats q = normal(querySize(s), 1), k = normal(keySize(s), 2), v = normal(keySize(s), 3);
  auto clean =
      runAttention(cpu::buildAttentionForward, s, {in(q), in(k), in(v), out(q.size()), out(100)});
  const size_t from = 70 * 16;
  std::fill(k.begin() + from, k.end(), nan);
  auto dirty =
      runAttention(cpu::buildAttentionForward, s, {in(q), in(k), in(v), out(q.size()), out(100)});
  for (size_t i = 0; i < from; ++i)
    ASSERT_EQ(clean[0][i], dirty[0][i]) << i;
  EXPECT_TRUE(std::isnan(dirty[0].back())) << "a NaN that is seen must show";
}

std::string refusal(const AttentionSizes &sizes, cpu::Profile profile, bool twice = false) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::string text;
  context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
    text += diagnostic.str();
    return mlir::success();
  });
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  bool failed = mlir::failed(cpu::buildAttentionForward(*module, "a", sizes, profile));
  if (twice)
    failed = mlir::failed(cpu::buildAttentionForward(*module, "a", sizes, profile));
  return failed ? text : "built";
}

TEST(AttentionErrors, NameTheKernelAndTheReason) {
  cpu::Profile avx2 = cpu::Profile::avx2(), odd = avx2;
  odd.lanes = 4;
  EXPECT_EQ(refusal({1, 0, 1, 1, 16}, avx2), "attention kernel 'a' has a size below 1");
  EXPECT_EQ(refusal({1, 8, 1, 1, 513}, avx2),
            "attention kernel 'a' has heads of 513 elements; at most 512 are supported");
  AttentionSizes wide{1, 8, 1, 1, 16};
  wide.valueDim = 600;
  EXPECT_EQ(refusal(wide, avx2),
            "attention kernel 'a' has heads of 600 elements; at most 512 are supported");
  EXPECT_EQ(refusal({1, 8, 1, 1, 16, INFINITY}, avx2),
            "attention kernel 'a' has a scale that is not finite");
  EXPECT_EQ(refusal({1, 8, 1, 1, 16}, odd),
            "attention kernel 'a' has no register blocking for vectors of 4 elements");
  EXPECT_EQ(refusal({1, 8, 1, 1, 16}, avx2, true), "attention kernel 'a' is there already");
}

// The loops for vectors of 16 where the processor may only have 8: slow, but right.
TEST(AttentionProfiles, SixteenLanesAgreeWithFloat64) {
  AttentionSizes s{1, 205, 2, 2, 40};
  s.scale = 0.15;
  expectAttention(s, 1, 1e-5, cpu::Profile::avx512());
}

// Compiled on every machine; run where the machine has it and the profile is tested.
TEST(AttentionProfiles, Avx512Compiles) {
  mlir::DialectRegistry registry;
  cpu::registerKernelDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  AttentionSizes s{1, 200, 2, 2, 32};
  cpu::Profile profile = cpu::Profile::avx512();
  auto forward = cpu::buildAttentionForward(*module, "f", s, profile);
  auto query = cpu::buildAttentionBackwardQuery(*module, "q", s, profile);
  auto keyValue = cpu::buildAttentionBackwardKeyValue(*module, "kv", s, profile);
  ASSERT_TRUE(mlir::succeeded(forward) && mlir::succeeded(query) && mlir::succeeded(keyValue));
  EXPECT_EQ(forward->extent, 4 * 3); // query heads x tiles of 96
  EXPECT_EQ(keyValue->extent, 2 * 3);
  EXPECT_TRUE(mlir::succeeded(cpu::compileObject(*module, profile)));
}

} // namespace

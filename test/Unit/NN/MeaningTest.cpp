//===- MeaningTest.cpp - The interpreter against formulas written again ----===//
//
// What each operator means, a second time, as straight as the formula stands in
// a textbook: every element by its own sum, no running maxima, no strides.
//
//===----------------------------------------------------------------------===//

#include "OpCase.h"

#include <cmath>
#include <complex>
#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::test;

namespace {
constexpr double kTolerance = 1e-12;

/// The element of `t` at an index written out.
double at(const HostTensor &t, std::initializer_list<int64_t> index) {
  return t.data[linearIndex(llvm::ArrayRef<int64_t>(index.begin(), index.size()), t.strides())];
}

/// A tensor from a function of its index.
template <typename Fn> HostTensor tabulate(std::initializer_list<int64_t> shape, Fn fn) {
  HostTensor t(llvm::ArrayRef<int64_t>(shape.begin(), shape.size()));
  size_t position = 0;
  forEachIndex(t.shape, [&](llvm::ArrayRef<int64_t> i) { t.data[position++] = fn(i); });
  return t;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Φ(x) by Simpson's rule on its density: knows nothing of erf.
double normalDistribution(double x) {
  constexpr int steps = 4000;
  double h = x / steps, sum = 0;
  for (int i = 0; i <= steps; ++i) {
    double weight = i == 0 || i == steps ? 1 : i % 2 ? 4 : 2;
    sum += weight * std::exp(-0.5 * (i * h) * (i * h));
  }
  return 0.5 + sum * h / 3 / std::sqrt(2 * M_PI);
}
} // namespace

TEST(Meaning, ContractSumsOverWhatTheResultLacks) {
  OpCase c{"nn.contract",
           {"batch=2 sequence=3 kv_head=2 head_dim=5", "model=4 kv_head=2 head_dim=5"},
           {"sequence=3 batch=2 model=4"}};
  auto in = randomOperands(c, 1);
  HostTensor want = tabulate({3, 2, 4}, [&](auto i) {
    double sum = 0;
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t d = 0; d < 5; ++d)
        sum += at(in[0], {i[1], i[0], h, d}) * at(in[1], {i[2], h, d});
    return sum;
  });
  expectClose(runCase(c, in)[0], want, kTolerance, "contract");
}

TEST(Meaning, ContractKeepsASharedDimension) {
  OpCase c{"nn.contract", {"batch=3 model=4", "model=4 batch=3 ffn=2"}, {"ffn=2 batch=3"}};
  auto in = randomOperands(c, 2);
  HostTensor want = tabulate({2, 3}, [&](auto i) {
    double sum = 0;
    for (int64_t d = 0; d < 4; ++d)
      sum += at(in[0], {i[1], d}) * at(in[1], {d, i[1], i[0]});
    return sum;
  });
  expectClose(runCase(c, in)[0], want, kTolerance, "contract");
}

TEST(Meaning, SumStackAndUnstack) {
  OpCase sum{"nn.sum", {"batch=3 sequence=2 model=5"}, {"model=5 batch=3"}};
  auto in = randomOperands(sum, 3);
  HostTensor want = tabulate(
      {5, 3}, [&](auto i) { return at(in[0], {i[1], 0, i[0]}) + at(in[0], {i[1], 1, i[0]}); });
  expectClose(runCase(sum, in)[0], want, kTolerance, "sum");

  OpCase unstack{"nn.unstack",
                 {"model=4 qkv=3 head_dim=2"},
                 {"model=4 head_dim=2", "model=4 head_dim=2", "model=4 head_dim=2"},
                 "{dim = \"qkv\"}"};
  auto whole = randomOperands(unstack, 4);
  auto parts = runCase(unstack, whole);
  ASSERT_EQ(parts.size(), 3u);
  for (int64_t p = 0; p < 3; ++p)
    expectClose(parts[p], tabulate({4, 2}, [&](auto i) { return at(whole[0], {i[0], p, i[1]}); }),
                0, "part " + std::to_string(p));

  OpCase stack{"nn.stack", unstack.results, {"model=4 qkv=3 head_dim=2"}, "{dim = \"qkv\"}"};
  expectClose(runCase(stack, parts)[0], whole[0], 0, "stack");
}

TEST(Meaning, ElementwiseBroadcastsByName) {
  for (bool product : {false, true}) {
    OpCase c{product ? "nn.mul" : "nn.add",
             {"model=5 batch=3", "sequence=2 batch=3"},
             {"batch=3 sequence=2 model=5"}};
    auto in = randomOperands(c, 5);
    HostTensor want = tabulate({3, 2, 5}, [&](auto i) {
      double x = at(in[0], {i[2], i[0]}), y = at(in[1], {i[1], i[0]});
      return product ? x * y : x + y;
    });
    expectClose(runCase(c, in)[0], want, kTolerance, c.op);
  }
}

TEST(Meaning, Activations) {
  auto check = [](const std::string &op, const std::string &attributes, auto fn, double tolerance) {
    OpCase c{op, {"ffn=17"}, {"ffn=17"}, attributes};
    auto in = randomOperands(c, 6);
    HostTensor want = tabulate({17}, [&](auto i) { return fn(in[0].data[i[0]]); });
    expectClose(runCase(c, in)[0], want, tolerance, op + attributes);
  };
  check("nn.silu", "{}", [](double x) { return x * sigmoid(x); }, kTolerance);
  check("nn.relu", "{}", [](double x) { return x < 0 ? 0 : x; }, 0);
  check("nn.gelu", "{}", [](double x) { return x * normalDistribution(x); }, 1e-11);
  check(
      "nn.gelu", "{tanh}",
      [](double x) {
        double u = std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3));
        return 0.5 * x * (1 + (std::exp(2 * u) - 1) / (std::exp(2 * u) + 1));
      },
      kTolerance);
}

TEST(Meaning, Casts) {
  // Between 1 and 1 + 2^-7, the ends included: the nearer one, from the middle the even one.
  OpCase narrow{"nn.cast", {"model=8"}, {"bf16 model=8"}};
  HostTensor numbers({8});
  numbers.data = {1.0, 1 + 0x1p-9, 1 + 0x1p-8, 1 + 0x1.8p-8, 1 + 0x3p-8, -1 - 0x1p-8, 0, 3e38};
  const std::vector<double> want = {1, 1, 1, 1 + 0x1p-7, 1 + 0x1p-6, -1, 0, 0x1.c4p127};
  EXPECT_EQ(runCase(narrow, {numbers})[0].data, want);
  OpCase wide{"nn.cast", {"bf16 model=8"}, {"model=8"}};
  HostTensor rounded({8});
  rounded.data = want;
  EXPECT_EQ(runCase(wide, {rounded})[0].data, want);
}

TEST(Meaning, Norms) {
  OpCase rms{"nn.rms_norm",
             {"batch=2 sequence=3 model=5", "model=5"},
             {"batch=2 sequence=3 model=5", "batch=2 sequence=3"},
             "{eps = 0.01 : f64}"};
  auto in = randomOperands(rms, 7);
  auto rstd = [&](auto i) {
    double squares = 0;
    for (int64_t d = 0; d < 5; ++d)
      squares += std::pow(at(in[0], {i[0], i[1], d}), 2);
    return 1 / std::sqrt(squares / 5 + 0.01);
  };
  auto got = runCase(rms, in);
  expectClose(got[1], tabulate({2, 3}, rstd), kTolerance, "rstd");
  expectClose(
      got[0],
      tabulate({2, 3, 5},
               [&](auto i) { return at(in[0], {i[0], i[1], i[2]}) * rstd(i) * in[1].data[i[2]]; }),
      kTolerance, "rms_norm");

  OpCase layer{"nn.layer_norm",
               {"batch=3 model=5", "model=5", "model=5"},
               {"batch=3 model=5", "batch=3", "batch=3"},
               "{eps = 0.01 : f64}"};
  auto x = randomOperands(layer, 8);
  auto moment = [&](int64_t row, int power) {
    double sum = 0;
    for (int64_t d = 0; d < 5; ++d)
      sum += std::pow(at(x[0], {row, d}), power);
    return sum / 5;
  };
  auto scale = [&](int64_t row) { // E[x²] − E[x]², another way to the variance
    return 1 / std::sqrt(moment(row, 2) - std::pow(moment(row, 1), 2) + 0.01);
  };
  got = runCase(layer, x);
  expectClose(got[1], tabulate({3}, [&](auto i) { return moment(i[0], 1); }), kTolerance, "mean");
  expectClose(got[2], tabulate({3}, [&](auto i) { return scale(i[0]); }), kTolerance, "rstd");
  expectClose(got[0],
              tabulate({3, 5},
                       [&](auto i) {
                         return (at(x[0], {i[0], i[1]}) - moment(i[0], 1)) * scale(i[0]) *
                                    x[1].data[i[1]] +
                                x[2].data[i[1]];
                       }),
              kTolerance, "layer_norm");
}

TEST(Meaning, RopeIsARotationOfComplexPairs) {
  OpCase c{"nn.rope",
           {"batch=2 sequence=3 kv_head=2 head_dim=6", "int:0:50 batch=2 sequence=3"},
           {"batch=2 sequence=3 kv_head=2 head_dim=6"},
           "{frequencies = array<f64: 1.0, 0.2, 0.04>}"};
  auto in = randomOperands(c, 9);
  const double frequency[] = {1.0, 0.2, 0.04};
  HostTensor want = tabulate({2, 3, 2, 6}, [&](auto i) {
    int64_t pair = i[3] % 3;
    std::complex<double> z(at(in[0], {i[0], i[1], i[2], pair}),
                           at(in[0], {i[0], i[1], i[2], pair + 3}));
    z *= std::polar(1.0, at(in[1], {i[0], i[1]}) * frequency[pair]);
    return i[3] < 3 ? z.real() : z.imag();
  });
  auto rotated = runCase(c, in);
  expectClose(rotated[0], want, kTolerance, "rope");
  c.attributes = "{frequencies = array<f64: 1.0, 0.2, 0.04>, inverse}";
  expectClose(runCase(c, {rotated[0], in[1]})[0], in[0], kTolerance, "rope there and back");
}

TEST(Meaning, RopeWithFewFrequenciesLeavesTheRest) {
  OpCase c{"nn.rope",
           {"batch=2 sequence=3 head_dim=8", "int:0:50 batch=2 sequence=3"},
           {"batch=2 sequence=3 head_dim=8"},
           "{frequencies = array<f64: 1.0, 0.2>}"};
  auto in = randomOperands(c, 19);
  const double frequency[] = {1.0, 0.2};
  HostTensor want = tabulate({2, 3, 8}, [&](auto i) {
    if (i[2] >= 4)
      return at(in[0], {i[0], i[1], i[2]});
    int64_t pair = i[2] % 2;
    std::complex<double> z(at(in[0], {i[0], i[1], pair}), at(in[0], {i[0], i[1], pair + 2}));
    z *= std::polar(1.0, at(in[1], {i[0], i[1]}) * frequency[pair]);
    return i[2] < 2 ? z.real() : z.imag();
  });
  expectClose(runCase(c, in)[0], want, kTolerance, "rope");
}

TEST(Meaning, AttentionIsCausalSoftmax) {
  OpCase c{
      "nn.attention",
      {"batch=2 sequence=4 kv_head=2 group=3 head_dim=5", "batch=2 sequence=4 kv_head=2 head_dim=5",
       "batch=2 sequence=4 kv_head=2 head_dim=5"},
      {"batch=2 sequence=4 kv_head=2 group=3 head_dim=5", "batch=2 sequence=4 kv_head=2 group=3"},
      "{scale = 0.7 : f64}"};
  auto in = randomOperands(c, 10);
  auto weight = [&](auto i, int64_t j) {
    double score = 0;
    for (int64_t d = 0; d < 5; ++d)
      score += at(in[0], {i[0], i[1], i[2], i[3], d}) * at(in[1], {i[0], j, i[2], d});
    return std::exp(0.7 * score);
  };
  auto total = [&](auto i) {
    double sum = 0;
    for (int64_t j = 0; j <= i[1]; ++j)
      sum += weight(i, j);
    return sum;
  };
  auto got = runCase(c, in);
  expectClose(got[1], tabulate({2, 4, 2, 3}, [&](auto i) { return std::log(total(i)); }),
              kTolerance, "lse");
  expectClose(got[0],
              tabulate({2, 4, 2, 3, 5},
                       [&](auto i) {
                         double sum = 0;
                         for (int64_t j = 0; j <= i[1]; ++j)
                           sum += weight(i, j) / total(i) * at(in[2], {i[0], j, i[2], i[4]});
                         return sum;
                       }),
              kTolerance, "attention");
}

TEST(Meaning, AttentionWithAWindowAndACap) {
  OpCase c{"nn.attention",
           {"batch=1 sequence=6 kv_head=1 head_dim=3", "batch=1 sequence=6 kv_head=1 head_dim=3",
            "batch=1 sequence=6 kv_head=1 head_dim=3"},
           {"batch=1 sequence=6 kv_head=1 head_dim=3", "batch=1 sequence=6 kv_head=1"},
           "{scale = 0.7 : f64, window = 2 : i64, cap = 0.5 : f64}"};
  auto in = randomOperands(c, 20);
  auto weight = [&](int64_t i, int64_t j) {
    double score = 0;
    for (int64_t d = 0; d < 3; ++d)
      score += at(in[0], {0, i, 0, d}) * at(in[1], {0, j, 0, d});
    return std::exp(0.5 * std::tanh(0.7 * score / 0.5));
  };
  HostTensor want = tabulate({1, 6, 1, 3}, [&](auto i) {
    double own = weight(i[1], i[1]), before = i[1] ? weight(i[1], i[1] - 1) : 0;
    double value = own * at(in[2], {0, i[1], 0, i[3]});
    if (i[1])
      value += before * at(in[2], {0, i[1] - 1, 0, i[3]});
    return value / (own + before);
  });
  expectClose(runCase(c, in)[0], want, kTolerance, "attention");
}

// A sink is one more term of the sum below, whose value is zero; values may be wider.
TEST(Meaning, AttentionWithSinks) {
  const std::string rows = "batch=2 sequence=3 kv_head=2 group=2",
                    keys = "batch=2 sequence=3 kv_head=2";
  OpCase c{"nn.attention",
           {rows + " head_dim=2", keys + " head_dim=2", keys + " value_dim=5", "kv_head=2 group=2"},
           {rows + " value_dim=5", rows},
           "{scale = 0.7 : f64}"};
  auto in = randomOperands(c, 40);
  auto weight = [&](auto i, int64_t j) {
    double score = 0;
    for (int64_t d = 0; d < 2; ++d)
      score += at(in[0], {i[0], i[1], i[2], i[3], d}) * at(in[1], {i[0], j, i[2], d});
    return std::exp(0.7 * score);
  };
  auto total = [&](auto i) {
    double sum = std::exp(at(in[3], {i[2], i[3]}));
    for (int64_t j = 0; j <= i[1]; ++j)
      sum += weight(i, j);
    return sum;
  };
  auto got = runCase(c, in);
  expectClose(got[1], tabulate({2, 3, 2, 2}, [&](auto i) { return std::log(total(i)); }),
              kTolerance, "lse");
  expectClose(got[0],
              tabulate({2, 3, 2, 2, 5},
                       [&](auto i) {
                         double sum = 0;
                         for (int64_t j = 0; j <= i[1]; ++j)
                           sum += weight(i, j) / total(i) * at(in[2], {i[0], j, i[2], i[4]});
                         return sum;
                       }),
              kTolerance, "attention");
}

// Rows in another order, with their positions, give the same rows in that order.
TEST(Meaning, AttentionFollowsPositions) {
  const std::string rows = "batch=1 sequence=6 kv_head=1", wide = rows + " head_dim=3",
                    at = "int:0:0 batch=1 sequence=6";
  const std::string attributes = "{scale = 0.7 : f64, window = 4 : i64}";
  OpCase inOrder{"nn.attention", {wide, wide, wide}, {wide, rows}, attributes};
  OpCase placed{"nn.attention", {wide, wide, wide, at, at}, {wide, rows}, attributes};
  const int queryAt[] = {0, 1, 5, 2, 4, 3}, keyAt[] = {3, 5, 0, 1, 2, 4};
  auto in = randomOperands(inOrder, 31), moved = randomOperands(placed, 31);
  for (int64_t i = 0; i < 6; ++i) {
    moved[3].data[i] = queryAt[i];
    moved[4].data[i] = keyAt[i];
    for (int64_t d = 0; d < 3; ++d) {
      moved[0].data[3 * i + d] = in[0].data[3 * queryAt[i] + d];
      for (int64_t which : {1, 2})
        moved[which].data[3 * i + d] = in[which].data[3 * keyAt[i] + d];
    }
  }
  auto want = runCase(inOrder, in), got = runCase(placed, moved);
  expectClose(
      got[0],
      tabulate({1, 6, 1, 3}, [&](auto i) { return want[0].data[3 * queryAt[i[1]] + i[3]]; }),
      kTolerance, "attention");
  expectClose(got[1], tabulate({1, 6, 1}, [&](auto i) { return want[1].data[queryAt[i[1]]]; }),
              kTolerance, "lse");
}

TEST(Meaning, SoftCapIsBounded) {
  OpCase c{"nn.soft_cap", {"batch=3"}, {"batch=3"}, "{cap = 30.0 : f64}"};
  HostTensor x({3}), want({3});
  x.data = {0.25, -3000.0, 60.0};
  want.data = {30 * std::tanh(0.25 / 30), -30.0, 30 * std::tanh(2.0)};
  expectClose(runCase(c, {x})[0], want, kTolerance, "soft_cap");
}

TEST(Meaning, EmbeddingAndItsGradientSkipForeignRows) {
  OpCase c{"nn.embedding", {"vocab=4 model=3", "int:0:9 batch=7", "int:3:3"}, {"batch=7 model=3"}};
  auto in = randomOperands(c, 11);
  auto row = [&](int64_t t) { return static_cast<int64_t>(in[1].data[t]) - 3; };
  HostTensor rows = tabulate({7, 3}, [&](auto i) {
    return row(i[0]) >= 0 && row(i[0]) < 4 ? at(in[0], {row(i[0]), i[1]}) : 0.0;
  });
  expectClose(runCase(c, in)[0], rows, 0, "embedding");
  OpCase back{
      "nn.embedding_grad", {"int:0:9 batch=7", "batch=7 model=3", "int:3:3"}, {"vocab=4 model=3"}};
  HostTensor dy = randomTensor({7, 3}, 12);
  HostTensor want = tabulate({4, 3}, [&](auto i) {
    double sum = 0;
    for (int64_t t = 0; t < 7; ++t)
      sum += row(t) == i[0] ? at(dy, {t, i[1]}) : 0.0;
    return sum;
  });
  expectClose(runCase(back, {in[1], dy, in[2]})[0], want, kTolerance, "embedding_grad");
}

TEST(Meaning, CrossEntropyWholeAndInParts) {
  OpCase c{"nn.cross_entropy", {"batch=6 vocab=5", "int:-1:4 batch=6"}, {"batch=6", "batch=6"}};
  auto in = randomOperands(c, 13);
  in[1].data[2] = -100; // PyTorch's token that does not count
  auto total = [&](int64_t r) {
    double sum = 0;
    for (int64_t v = 0; v < 5; ++v)
      sum += std::exp(at(in[0], {r, v}));
    return sum;
  };
  HostTensor lse = tabulate({6}, [&](auto i) { return std::log(total(i[0])); });
  HostTensor loss = tabulate({6}, [&](auto i) {
    int64_t target = static_cast<int64_t>(in[1].data[i[0]]);
    return target < 0 ? 0.0 : -std::log(std::exp(at(in[0], {i[0], target})) / total(i[0]));
  });
  auto got = runCase(c, in);
  expectClose(got[0], loss, kTolerance, "loss");
  expectClose(got[1], lse, kTolerance, "lse");

  OpCase count{"nn.count_valid", {"int:-1:4 batch=6"}, {""}};
  double valid = 0;
  for (double t : in[1].data)
    valid += t >= 0 ? 1 : 0;
  EXPECT_EQ(runCase(count, {in[1]})[0].data[0], valid);
}

TEST(Meaning, LargeLogitsStayFinite) {
  OpCase c{"nn.cross_entropy", {"batch=1 vocab=3", "int:0:0 batch=1"}, {"batch=1", "batch=1"}};
  HostTensor logits({1, 3}), target({1});
  logits.data = {1000.0, 999.0, -1000.0};
  auto got = runCase(c, {logits, target});
  EXPECT_NEAR(got[0].data[0], std::log1p(std::exp(-1.0)), 1e-12);
}

TEST(Meaning, OptimizerFollowsThePaper) {
  std::string w = "ffn=5";
  OpCase c{"nn.adamw",
           {w, w, w, "positive " + w, "positive", "positive", "positive", "positive"},
           {w, w, w},
           "{beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-3 : f64, weight_decay = 0.1 : f64}"};
  auto in = randomOperands(c, 14);
  auto scalar = [&](int i) { return in[i].data[0]; };
  auto got = runCase(c, in);
  for (int64_t i = 0; i < 5; ++i) {
    double g = in[1].data[i] * scalar(4);
    double m = 0.9 * in[2].data[i] + 0.1 * g, v = 0.95 * in[3].data[i] + 0.05 * g * g;
    double mHat = m / scalar(6), vHat = v / scalar(7), p = in[0].data[i];
    p -= scalar(5) * 0.1 * p; // decoupled decay first, as torch.optim.AdamW
    p -= scalar(5) * mHat / (std::sqrt(vHat) + 1e-3);
    EXPECT_NEAR(got[0].data[i], p, kTolerance);
    EXPECT_NEAR(got[1].data[i], m, kTolerance);
    EXPECT_NEAR(got[2].data[i], v, kTolerance);
  }
}

TEST(Meaning, ClippingAndReciprocal) {
  OpCase clip{"nn.clip_scale", {""}, {"", ""}, "{max_norm = 2.0 : f64}"};
  auto of = [](double x) { return HostTensor({}, x); };
  EXPECT_NEAR(runCase(clip, {of(16)})[0].data[0], 4, kTolerance);
  EXPECT_NEAR(runCase(clip, {of(16)})[1].data[0], 2 / (4 + 1e-6), kTolerance);
  EXPECT_EQ(runCase(clip, {of(1)})[1].data[0], 1);
  EXPECT_EQ(runCase(clip, {of(0)})[1].data[0], 1);
  clip.attributes = "{}";
  EXPECT_EQ(runCase(clip, {of(16)})[1].data[0], 1);
  OpCase reciprocal{"nn.reciprocal", {""}, {""}};
  EXPECT_EQ(runCase(reciprocal, {of(4)})[0].data[0], 0.25);
  EXPECT_EQ(runCase(reciprocal, {of(0)})[0].data[0], 0);
  OpCase squares{"nn.sum_squares", {"ffn=3"}, {""}};
  HostTensor x({3});
  x.data = {1, -2, 3};
  EXPECT_EQ(runCase(squares, {x})[0].data[0], 14);
}

//===- RowKernelsTest.cpp - row maps and row reductions -------------------===//

#include "KernelHarness.h"
#include "KernelText.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace cleave::test;

namespace {

struct Shape {
  int64_t rows, cols;
};

class RowKernels : public testing::TestWithParam<Shape> {
protected:
  int64_t rows = GetParam().rows, cols = GetParam().cols;
  size_t all = size_t(rows * cols);

  /// The sum of f(c) over one row, in float64.
  template <typename F> double rowSum(F &&f) const {
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c)
      sum += f(c);
    return sum;
  }
  std::string count() const { return std::to_string(cols) + ".0"; }
};

// s = a + b; rstd = rsqrt(mean(s * s) + eps); y = s * rstd * w.
TEST_P(RowKernels, AddRmsNorm) {
  KernelText k(rows);
  k.input("a", {rows, cols}).input("b", {rows, cols}).input("w", {cols});
  k.output("s", {rows, cols}).output("y", {rows, cols}).output("rstd", {rows});
  k.constant("n", count()).constant("eps", "1.0e-5").fill("zero", {rows}, "0.0");
  k.generic("sum", {rows, cols}, "r c", "pp", {{"a", "r c"}, {"b", "r c"}}, {"s", "r c"},
            "t = addf a0 a1; yield t");
  k.generic("sq", {rows}, "r c", "pr", {{"sum", "r c"}}, {"zero", "r"},
            "t = mulf a0 a0; u = addf o t; yield u");
  k.generic("f", {rows}, "r", "p", {{"sq", "r"}}, {"rstd", "r"},
            "t = divf a0 n; u = addf t eps; v = rsqrt u; yield v");
  k.generic("norm", {rows, cols}, "r c", "pp", {{"sum", "r c"}, {"f", "r"}, {"w", "c"}},
            {"y", "r c"}, "t = mulf a0 a1; u = mulf t a2; yield u");
  k.returns({"sum", "norm", "f"});

  CompiledKernel kernel(k.text(), "k");
  Floats a = normal(all, 1), b = normal(all, 2), w = normal(cols, 3);
  auto got = run(kernel, rows, {in(a), in(b), in(w), out(all), out(all), out(rows)});
  auto s = [&](size_t i) { return double(a[i] + b[i]); };
  std::vector<double> rstd(rows);
  for (int64_t r = 0; r < rows; ++r)
    rstd[r] = 1 / std::sqrt(rowSum([&](int64_t c) { return std::pow(s(r * cols + c), 2); }) / cols +
                            1e-5);
  expectNear(got[0], s, 0, 0, "sum");
  expectNear(got[1], [&](size_t i) { return s(i) * rstd[i / cols] * w[i % cols]; }, 2e-6, 0, "y");
  expectNear(got[2], [&](size_t i) { return rstd[i]; }, 2e-6, 0, "rstd");
}

// dx = rstd * (g - x * rstd^2 * mean(g * x)), g = dy * w, added to a residual gradient.
TEST_P(RowKernels, RmsNormBackward) {
  KernelText k(rows);
  k.input("dy", {rows, cols}).input("x", {rows, cols}).input("w", {cols}).input("rstd", {rows});
  k.input("res", {rows, cols}).output("dx", {rows, cols});
  k.constant("n", count()).fill("zero", {rows}, "0.0").empty("e", {rows, cols});
  k.generic("g", {rows, cols}, "r c", "pp", {{"dy", "r c"}, {"w", "c"}}, {"e", "r c"},
            "t = mulf a0 a1; yield t");
  k.generic("dot", {rows}, "r c", "pr", {{"g", "r c"}, {"x", "r c"}}, {"zero", "r"},
            "t = mulf a0 a1; u = addf o t; yield u");
  k.generic("d", {rows, cols}, "r c", "pp",
            {{"g", "r c"}, {"x", "r c"}, {"rstd", "r"}, {"dot", "r"}, {"res", "r c"}},
            {"dx", "r c"},
            "m = divf a3 n; q = mulf a2 a2; p = mulf q m; v = mulf a1 p; w1 = subf a0 v; "
            "z = mulf a2 w1; y = addf z a4; yield y");
  k.returns({"d"});

  CompiledKernel kernel(k.text(), "k");
  Floats dy = normal(all, 1), x = normal(all, 2), w = normal(cols, 3), rstd = normal(rows, 4),
         res = normal(all, 5);
  auto got = run(kernel, rows, {in(dy), in(x), in(w), in(rstd), in(res), out(all)});
  auto g = [&](size_t i) { return double(dy[i]) * w[i % cols]; };
  std::vector<double> mean(rows);
  for (int64_t r = 0; r < rows; ++r)
    mean[r] = rowSum([&](int64_t c) { return g(r * cols + c) * x[r * cols + c]; }) / cols;
  auto want = [&](size_t i) {
    double f = rstd[i / cols];
    return f * (g(i) - x[i] * f * f * mean[i / cols]) + res[i];
  };
  expectNear(got[0], want, 1e-5, 1e-5, "dx");
}

// y = exp(x - max) / sum: the exponentials are computed once and wait in y's row.
TEST_P(RowKernels, Softmax) {
  KernelText k(rows);
  k.input("x", {rows, cols}).output("y", {rows, cols});
  k.fill("low", {rows}, "0xFF800000").fill("zero", {rows}, "0.0").empty("e", {rows, cols});
  k.generic("max", {rows}, "r c", "pr", {{"x", "r c"}}, {"low", "r"}, "t = maximumf o a0; yield t");
  k.generic("ex", {rows, cols}, "r c", "pp", {{"x", "r c"}, {"max", "r"}}, {"e", "r c"},
            "t = subf a0 a1; u = exp t; yield u");
  k.generic("sum", {rows}, "r c", "pr", {{"ex", "r c"}}, {"zero", "r"}, "t = addf o a0; yield t");
  k.generic("p", {rows, cols}, "r c", "pp", {{"ex", "r c"}, {"sum", "r"}}, {"y", "r c"},
            "one = constant 1.0; t = divf one a1; u = mulf a0 t; yield u");
  k.returns({"p"});

  CompiledKernel kernel(k.text(), "k");
  Floats x = normal(all, 1, 5);
  auto got = run(kernel, rows, {in(x), out(all)});
  std::vector<double> max(rows), sum(rows);
  for (int64_t r = 0; r < rows; ++r) {
    const float *row = &x[r * cols];
    max[r] = *std::max_element(row, row + cols);
    sum[r] = rowSum([&](int64_t c) { return std::exp(row[c] - max[r]); });
  }
  // The difference x - max rounds to 2e-6 at most, which is a relative error of y.
  expectNear(
      got[0], [&](size_t i) { return std::exp(x[i] - max[i / cols]) / sum[i / cols]; }, 1e-5, 1e-12,
      "softmax");
}

// y = (x - mean) * rstd * w + b, with the mean and the mean square from one pass.
TEST_P(RowKernels, LayerNorm) {
  KernelText k(rows);
  k.input("x", {rows, cols}).input("w", {cols}).input("b", {cols});
  k.output("y", {rows, cols}).output("mean", {rows}).output("rstd", {rows});
  k.constant("n", count()).constant("eps", "1.0e-5").fill("zero", {rows}, "0.0");
  k.generic("sum", {rows}, "r c", "pr", {{"x", "r c"}}, {"zero", "r"}, "t = addf o a0; yield t");
  k.generic("m", {rows}, "r", "p", {{"sum", "r"}}, {"mean", "r"}, "t = divf a0 n; yield t");
  k.generic("var", {rows}, "r c", "pr", {{"x", "r c"}, {"m", "r"}}, {"zero", "r"},
            "d = subf a0 a1; t = mulf d d; u = addf o t; yield u");
  k.generic("f", {rows}, "r", "p", {{"var", "r"}}, {"rstd", "r"},
            "t = divf a0 n; u = addf t eps; v = rsqrt u; yield v");
  k.generic("out", {rows, cols}, "r c", "pp",
            {{"x", "r c"}, {"m", "r"}, {"f", "r"}, {"w", "c"}, {"b", "c"}}, {"y", "r c"},
            "d = subf a0 a1; t = mulf d a2; u = mulf t a3; v = addf u a4; yield v");
  k.returns({"out", "m", "f"});

  CompiledKernel kernel(k.text(), "k");
  Floats x = normal(all, 1), w = normal(cols, 2), b = normal(cols, 3);
  auto got = run(kernel, rows, {in(x), in(w), in(b), out(all), out(rows), out(rows)});
  auto mean = [&](int64_t r) { return rowSum([&](int64_t c) { return x[r * cols + c]; }) / cols; };
  std::vector<double> means(rows), rstd(rows);
  for (int64_t r = 0; r < rows; ++r) {
    means[r] = mean(r);
    rstd[r] = 1 / std::sqrt(rowSum([&](int64_t c) {
                              return std::pow(x[r * cols + c] - means[r], 2);
                            }) / cols +
                            1e-5);
  }
  if (cols > 1)
    expectNear(
        got[0],
        [&](size_t i) {
          return (x[i] - means[i / cols]) * rstd[i / cols] * w[i % cols] + b[i % cols];
        },
        1e-5, 1e-5, "y");
  expectNear(got[1], [&](size_t i) { return means[i]; }, 1e-5, 1e-6, "mean");
}

// h = silu(g) * u and its gradients.
TEST_P(RowKernels, SwiGluAndGradient) {
  KernelText k(rows);
  k.input("g", {rows, cols}).input("u", {rows, cols}).input("dh", {rows, cols});
  k.output("h", {rows, cols}).output("dg", {rows, cols}).output("du", {rows, cols});
  k.empty("e", {rows, cols});
  k.generic("sig", {rows, cols}, "r c", "pp", {{"g", "r c"}}, {"e", "r c"},
            "one = constant 1.0; n = negf a0; x = exp n; d = addf one x; s = divf one d; yield s");
  k.generic("h1", {rows, cols}, "r c", "pp", {{"g", "r c"}, {"sig", "r c"}, {"u", "r c"}},
            {"h", "r c"}, "t = mulf a0 a1; v = mulf t a2; yield v");
  k.generic("dg1", {rows, cols}, "r c", "pp",
            {{"g", "r c"}, {"sig", "r c"}, {"u", "r c"}, {"dh", "r c"}}, {"dg", "r c"},
            "one = constant 1.0; m = subf one a1; t = mulf a0 m; v = addf one t; w = mulf a1 v; "
            "x = mulf a2 a3; y = mulf w x; yield y");
  k.generic("du1", {rows, cols}, "r c", "pp", {{"g", "r c"}, {"sig", "r c"}, {"dh", "r c"}},
            {"du", "r c"}, "t = mulf a0 a1; v = mulf t a2; yield v");
  k.returns({"h1", "dg1", "du1"});

  CompiledKernel kernel(k.text(), "k");
  Floats g = normal(all, 1, 3), u = normal(all, 2), dh = normal(all, 3);
  auto got = run(kernel, rows, {in(g), in(u), in(dh), out(all), out(all), out(all)});
  auto s = [&](size_t i) { return 1 / (1 + std::exp(-double(g[i]))); };
  expectNear(got[0], [&](size_t i) { return g[i] * s(i) * u[i]; }, 2e-6, 0, "h");
  expectNear(
      got[1], [&](size_t i) { return s(i) * (1 + g[i] * (1 - s(i))) * u[i] * dh[i]; }, 2e-6, 1e-6,
      "dg");
  expectNear(got[2], [&](size_t i) { return g[i] * s(i) * dh[i]; }, 2e-6, 0, "du");
}

INSTANTIATE_TEST_SUITE_P(Shapes, RowKernels,
                         testing::Values(Shape{1, 1}, Shape{3, 17}, Shape{17, 3}, Shape{5, 255},
                                         Shape{7, 257}, Shape{33, 768}, Shape{255, 8},
                                         Shape{1, 50257}),
                         [](const auto &info) {
                           return std::to_string(info.param.rows) + "x" +
                                  std::to_string(info.param.cols);
                         });

} // namespace

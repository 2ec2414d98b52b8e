//===- KernelShapesTest.cpp - unusual structures --------------------------===//
//
// What the planner has rules for beyond plain rows: rows of several dimensions,
// reshapes, stored intermediates, in-place rows, reductions in a fixed order.
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"
#include "KernelText.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace cleave::test;

namespace {

const int64_t kRows = 9, kHeads = 3;

/// Norm of each head, on rows that are stored flat or as [heads, width].
Floats headNorm(const Floats &x, const Floats &w, int64_t width, std::vector<double> *rstds) {
  Floats y(x.size());
  for (size_t head = 0; head < x.size() / width; ++head) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i)
      sum += double(x[head * width + i]) * x[head * width + i];
    double rstd = 1 / std::sqrt(sum / width + 1e-5);
    if (rstds)
      rstds->push_back(rstd);
    for (int64_t i = 0; i < width; ++i)
      y[head * width + i] = float(x[head * width + i] * rstd * w[i]);
  }
  return y;
}

void addHeadNorm(KernelText &k, const std::string &x, const std::string &y, const std::string &rstd,
                 int64_t width) {
  k.constant("n", std::to_string(width) + ".0").constant("eps", "1.0e-5");
  k.fill("zero", {kRows, kHeads}, "0.0");
  k.generic("sq", {kRows, kHeads}, "r h i", "ppr", {{x, "r h i"}}, {"zero", "r h"},
            "t = mulf a0 a0; u = addf o t; yield u");
  k.generic("f", {kRows, kHeads}, "r h", "pp", {{"sq", "r h"}}, {rstd, "r h"},
            "t = divf a0 n; u = addf t eps; v = rsqrt u; yield v");
  k.generic("norm", {kRows, kHeads, width}, "r h i", "ppp",
            {{x, "r h i"}, {"f", "r h"}, {"w", "i"}}, {y, "r h i"},
            "t = mulf a0 a1; u = mulf t a2; yield u");
}

TEST(KernelShapes, NormOfHeads) {
  for (int64_t width : {1, 6, 16, 33, 64}) {
    const size_t size = kRows * kHeads * width;
    KernelText k(kRows);
    k.input("x", {kRows, kHeads, width}).input("w", {width});
    k.output("y", {kRows, kHeads, width}).output("rstd", {kRows, kHeads});
    addHeadNorm(k, "x", "y", "rstd", width);
    k.returns({"norm", "f"});
    CompiledKernel kernel(k.text(), "k");
    Floats x = normal(size, 1), w = normal(width, 2);
    auto got = run(kernel, kRows, {in(x), in(w), out(size), out(kRows * kHeads)});
    std::vector<double> rstd;
    Floats want = headNorm(x, w, width, &rstd);
    expectNear(got[0], [&](size_t i) { return want[i]; }, 3e-6, 0, "y");
    expectNear(got[1], [&](size_t i) { return rstd[i]; }, 3e-6, 0, "rstd");
  }
}

TEST(KernelShapes, ReshapesMoveToTheEdges) {
  const int64_t width = 20, size = kRows * kHeads * width;
  KernelText k(kRows);
  k.input("flat", {kRows, kHeads * width}).input("w", {width}).output("y", {kRows, kHeads * width});
  std::string flat = "tensor<9x60xf32>", split = "tensor<9x3x20xf32>";
  k.raw("x", {kRows, kHeads, width},
        "%x = tensor.expand_shape %flat [[0], [1, 2]] output_shape "
        "[9, 3, 20] : " +
            flat + " into " + split);
  k.empty("e", {kRows, kHeads, width}).empty("e2", {kRows, kHeads});
  addHeadNorm(k, "x", "e", "e2", width);
  k.raw("back", {kRows, kHeads * width},
        "%back = tensor.collapse_shape %norm [[0], [1, 2]] : " + split + " into " + flat);
  k.generic("twice", {kRows, kHeads * width}, "r c", "pp", {{"back", "r c"}}, {"y", "r c"},
            "t = addf a0 a0; yield t");
  k.returns({"twice"});
  CompiledKernel kernel(k.text(), "k");
  Floats x = normal(size, 1), w = normal(width, 2);
  auto got = run(kernel, kRows, {in(x), in(w), out(size)});
  Floats want = headNorm(x, w, width, nullptr);
  expectNear(got[0], [&](size_t i) { return 2.0 * want[i]; }, 3e-6, 0, "y");
}

// Lanes run over the last dimension while heads are summed in order.
TEST(KernelShapes, SumOverHeads) {
  const int64_t width = 21, size = kRows * kHeads * width;
  KernelText k(kRows);
  k.input("x", {kRows, kHeads, width})
      .output("y", {kRows, width})
      .fill("zero", {kRows, width}, "0.0");
  k.generic("s", {kRows, width}, "r h i", "prp", {{"x", "r h i"}}, {"zero", "r i"},
            "u = addf o a0; yield u");
  k.returns({"s"});
  CompiledKernel kernel(k.text(), "k");
  Floats x = normal(size, 1);
  auto got = run(kernel, kRows, {in(x), out(kRows * width)});
  expectNear(
      got[0],
      [&](size_t i) {
        const float *at = &x[i / width * kHeads * width + i % width];
        return double(at[0]) + at[width] + at[2 * width];
      },
      1e-6, 1e-6, "sum");
}

TEST(KernelShapes, ReadsATransposedOperand) {
  const int64_t cols = 19;
  KernelText k(kRows);
  k.input("x", {cols, kRows}).input("z", {kRows, cols}).output("y", {kRows, cols});
  k.generic("t", {kRows, cols}, "r c", "pp", {{"x", "c r"}, {"z", "r c"}}, {"y", "r c"},
            "u = addf a0 a1; yield u");
  k.returns({"t"});
  CompiledKernel kernel(k.text(), "k");
  Floats x = normal(kRows * cols, 1), z = normal(kRows * cols, 2);
  auto got = run(kernel, kRows, {in(x), in(z), out(kRows * cols)});
  expectNear(
      got[0], [&](size_t i) { return x[i % cols * kRows + i / cols] + z[i]; }, 1e-7, 0, "sum");
}

// A sum that no row changes is computed once; a kept dimension of extent 1 is a
// row scalar like any other.
TEST(KernelShapes, InvariantSumAndKeptDimension) {
  const int64_t cols = 37;
  KernelText k(kRows);
  k.input("x", {kRows, cols}).input("w", {cols}).output("y", {kRows, cols});
  k.fill("zero", {}, "0.0").fill("zeros", {kRows, 1}, "0.0");
  k.generic("ws", {}, "c", "r", {{"w", "c"}}, {"zero", ""}, "t = absf a0; u = addf o t; yield u");
  k.generic("rs", {kRows, 1}, "r k c", "ppr", {{"x", "r c"}}, {"zeros", "r k"},
            "u = addf o a0; yield u");
  k.generic("t", {kRows, cols}, "r c", "pp", {{"x", "r c"}, {"ws", ""}, {"rs", "r 0"}},
            {"y", "r c"}, "t = divf a0 a1; u = addf t a2; yield u");
  k.returns({"t"});
  CompiledKernel kernel(k.text(), "k");
  Floats x = normal(kRows * cols, 1), w = normal(cols, 2);
  auto got = run(kernel, kRows, {in(x), in(w), out(kRows * cols)});
  double ws = 0;
  for (float v : w)
    ws += std::abs(v);
  expectNear(
      got[0],
      [&](size_t i) {
        double rs = 0;
        for (int64_t c = 0; c < cols; ++c)
          rs += x[i / cols * cols + c];
        return x[i] / ws + rs;
      },
      1e-5, 1e-5, "y");
}

/// max, exp, sum of rows of `x`; `ex` is used by what follows.
void addSoftmax(KernelText &k, const std::string &x, int64_t cols) {
  k.fill("low", {kRows}, "0xFF800000").fill("zero", {kRows}, "0.0").empty("e", {kRows, cols});
  k.generic("max", {kRows}, "r c", "pr", {{x, "r c"}}, {"low", "r"}, "t = maximumf o a0; yield t");
  k.generic("ex", {kRows, cols}, "r c", "pp", {{x, "r c"}, {"max", "r"}}, {"e", "r c"},
            "t = subf a0 a1; u = exp t; yield u");
  k.generic("sum", {kRows}, "r c", "pr", {{"ex", "r c"}}, {"zero", "r"}, "t = addf o a0; yield t");
}

std::vector<double> softmax(const Floats &x, int64_t cols) {
  std::vector<double> y(x.size());
  for (size_t row = 0; row < x.size(); row += cols) {
    double max = *std::max_element(&x[row], &x[row] + cols), sum = 0;
    for (int64_t c = 0; c < cols; ++c)
      sum += y[row + c] = std::exp(x[row + c] - max);
    for (int64_t c = 0; c < cols; ++c)
      y[row + c] /= sum;
  }
  return y;
}

// Two results need the exponentials: they wait on the stack.
TEST(KernelShapes, StoresOnTheStack) {
  const int64_t cols = 45;
  KernelText k(kRows);
  k.input("x", {kRows, cols}).output("y", {kRows, cols}).output("z", {kRows, cols});
  addSoftmax(k, "x", cols);
  k.generic("p", {kRows, cols}, "r c", "pp", {{"ex", "r c"}, {"sum", "r"}}, {"y", "r c"},
            "t = divf a0 a1; yield t");
  k.generic("q", {kRows, cols}, "r c", "pp", {{"ex", "r c"}, {"sum", "r"}}, {"z", "r c"},
            "t = divf a0 a1; u = mulf t t; yield u");
  k.returns({"p", "q"});
  CompiledKernel kernel(k.text(), "k");
  Floats x = normal(kRows * cols, 1, 3);
  auto got = run(kernel, kRows, {in(x), out(x.size()), out(x.size())});
  auto want = softmax(x, cols);
  expectNear(got[0], [&](size_t i) { return want[i]; }, 5e-6, 1e-12, "p");
  expectNear(got[1], [&](size_t i) { return want[i] * want[i]; }, 1e-5, 1e-12, "q");
}

TEST(KernelShapes, SoftmaxInPlace) {
  const int64_t cols = 45;
  KernelText k(kRows);
  k.output("y", {kRows, cols});
  addSoftmax(k, "y", cols);
  k.generic("p", {kRows, cols}, "r c", "pp", {{"ex", "r c"}, {"sum", "r"}}, {"y", "r c"},
            "t = divf a0 a1; yield t");
  k.returns({"p"});
  CompiledKernel kernel(k.text(), "k");
  Floats x = normal(kRows * cols, 1, 3);
  auto got = run(kernel, kRows, {inout(x)});
  auto want = softmax(x, cols);
  expectNear(got[0], [&](size_t i) { return want[i]; }, 5e-6, 1e-12, "p");
}

// The residual is updated in place and normalised: the update must wait until the
// walk over old values is done, and happen once.
TEST(KernelShapes, ResidualInPlaceThenNorm) {
  for (int64_t cols : {1, 45, 64}) {
    KernelText k(kRows);
    k.input("b", {kRows, cols}).input("w", {cols});
    k.output("res", {kRows, cols}).output("y", {kRows, cols});
    k.constant("n", std::to_string(cols) + ".0").constant("eps", "1.0e-5");
    k.fill("zero", {kRows}, "0.0");
    k.generic("s", {kRows, cols}, "r c", "pp", {{"b", "r c"}}, {"res", "r c"},
              "t = addf o a0; yield t");
    k.generic("sq", {kRows}, "r c", "pr", {{"s", "r c"}}, {"zero", "r"},
              "t = mulf a0 a0; u = addf o t; yield u");
    k.generic("p", {kRows, cols}, "r c", "pp", {{"s", "r c"}, {"sq", "r"}, {"w", "c"}},
              {"y", "r c"},
              "m = divf a1 n; e = addf m eps; f = rsqrt e; t = mulf a0 f; u = mulf t a2; yield u");
    k.returns({"s", "p"});
    CompiledKernel kernel(k.text(), "k");
    Floats b = normal(kRows * cols, 1), w = normal(cols, 2), res = normal(kRows * cols, 3);
    auto got = run(kernel, kRows, {in(b), in(w), inout(res), out(res.size())});
    for (size_t i = 0; i < res.size(); ++i)
      res[i] += b[i];
    expectNear(got[0], [&](size_t i) { return res[i]; }, 0, 0, "residual");
    Floats want = headNorm(res, w, cols, nullptr);
    expectNear(got[1], [&](size_t i) { return want[i]; }, 3e-6, 0, "y");
  }
}

// Random bits from the element's number: integer arithmetic on indices.
TEST(KernelShapes, DropoutByCounter) {
  const int64_t cols = 83;
  KernelText k(kRows);
  k.input("x", {kRows, cols}).input("seed", {}, "i32").output("y", {kRows, cols});
  k.generic("d", {kRows, cols}, "r c", "pp", {{"x", "r c"}, {"seed", ""}}, {"y", "r c"},
            "%r = linalg.index 0 : index; %c = linalg.index 1 : index;"
            "%w = arith.constant 83 : index; %rw = arith.muli %r, %w : index;"
            "%at = arith.addi %rw, %c : index; %i = arith.index_cast %at : index to i32;"
            "%k = arith.constant 0x9E3779B1 : i32; %m = arith.constant 0xCD9E8D57 : i32;"
            "%b0 = arith.addi %i, %a1 : i32; %b1 = arith.muli %b0, %k : i32;"
            "%low, %b2 = arith.mului_extended %b1, %m : i32; %b3 = arith.xori %b1, %b2 : i32;"
            "%b4 = arith.muli %b3, %k : i32; %half = arith.constant 0x80000000 : i32;"
            "%keep = arith.cmpi uge, %b4, %half : i32; z = constant 0.0; t = addf a0 a0;"
            "%v = arith.select %keep, %t, %z : f32; yield v");
  k.returns({"d"});
  CompiledKernel kernel(k.text(), "k");
  Floats x = normal(kRows * cols, 1);
  const uint32_t seed = 12345;
  auto got = run(kernel, kRows, {in(x), in(Ints{int32_t(seed)}), out(x.size())});
  size_t kept = 0;
  expectNear(
      got[0],
      [&](size_t i) {
        uint32_t bits = (uint32_t(i) + seed) * 0x9E3779B1u;
        bits = (bits ^ uint32_t(uint64_t(bits) * 0xCD9E8D57u >> 32)) * 0x9E3779B1u;
        kept += bits >= 0x80000000u;
        return bits >= 0x80000000u ? 2.0 * x[i] : 0.0;
      },
      0, 0, "dropout");
  EXPECT_NEAR(double(kept) / double(x.size()), 0.5, 0.1);
}

// acc = acc / 2 + x depends on the order, which must be kept.
TEST(KernelShapes, KeepsTheOrderOfOtherReductions) {
  const int64_t cols = 40;
  KernelText k(kRows);
  k.input("x", {kRows, cols}).output("y", {kRows}).fill("zero", {kRows}, "0.0");
  k.generic("s", {kRows}, "r c", "pr", {{"x", "r c"}}, {"zero", "r"},
            "h = constant 0.5; t = mulf o h; u = addf t a0; yield u");
  k.returns({"s"});
  CompiledKernel kernel(k.text(), "k");
  Floats x = normal(kRows * cols, 1);
  auto got = run(kernel, kRows, {in(x), out(kRows)});
  expectNear(
      got[0],
      [&](size_t r) {
        double acc = 0;
        for (int64_t c = 0; c < cols; ++c)
          acc = acc / 2 + x[r * cols + c];
        return acc;
      },
      1e-6, 1e-6, "recurrence");
}

// NaN and the largest numbers pass through a maximum.
TEST(KernelShapes, MaximumKeepsNaN) {
  const int64_t cols = 50;
  KernelText k(kRows);
  k.input("x", {kRows, cols}).output("y", {kRows}).fill("low", {kRows}, "0xFF800000");
  k.generic("m", {kRows}, "r c", "pr", {{"x", "r c"}}, {"low", "r"}, "t = maximumf o a0; yield t");
  k.returns({"m"});
  CompiledKernel kernel(k.text(), "k");
  Floats x = normal(kRows * cols, 1);
  for (int64_t r = 1; r < kRows; ++r)
    x[r * cols + r * 6] = NAN;
  auto got = run(kernel, kRows, {in(x), out(kRows)})[0];
  EXPECT_EQ(got[0], *std::max_element(x.begin(), x.begin() + cols));
  for (int64_t r = 1; r < kRows; ++r)
    EXPECT_TRUE(std::isnan(got[r])) << r;
}

} // namespace

//===- ElementKernelsTest.cpp - elementwise kernels, gathers, rope --------===//

#include "KernelHarness.h"
#include "KernelText.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <gtest/gtest.h>

using namespace cleave::test;

namespace {

// AdamW in place on p, m and v, with step-dependent scalars as operands.
TEST(ElementKernels, AdamW) {
  for (int64_t n : {1, 7, 8, 31, 32, 257, 4099}) {
    KernelText k(n);
    k.input("g", {n}).input("lr", {}).input("c1", {}).input("c2", {});
    k.output("p", {n}).output("m", {n}).output("v", {n});
    k.constant("b1", "0.9").constant("b1c", "0.1").constant("b2", "0.95").constant("b2c", "0.05");
    k.constant("eps", "1.0e-8").constant("wd", "0.1");
    k.generic("m1", {n}, "i", "p", {{"g", "i"}}, {"m", "i"},
              "t = mulf o b1; u = mulf a0 b1c; w = addf t u; yield w");
    k.generic("v1", {n}, "i", "p", {{"g", "i"}}, {"v", "i"},
              "t = mulf o b2; q = mulf a0 a0; u = mulf q b2c; w = addf t u; yield w");
    k.generic("p1", {n}, "i", "p", {{"m1", "i"}, {"v1", "i"}, {"lr", ""}, {"c1", ""}, {"c2", ""}},
              {"p", "i"},
              "mh = mulf a0 a3; vh = mulf a1 a4; s = sqrt vh; d = addf s eps; q = divf mh d; "
              "w = mulf o wd; t = addf q w; u = mulf a2 t; r = subf o u; yield r");
    k.returns({"p1", "m1", "v1"});
    CompiledKernel kernel(k.text(), "k");
    Floats g = normal(n, 1), p = normal(n, 2), m = normal(n, 3), v = normal(n, 4);
    for (float &x : v)
      x *= x;
    auto got = run(kernel, n,
                   {in(g), in(Floats{1e-3f}), in(Floats{1.5f}), in(Floats{2.5f}), inout(p),
                    inout(m), inout(v)});
    auto m1 = [&](size_t i) { return 0.9 * m[i] + 0.1 * g[i]; };
    auto v1 = [&](size_t i) { return 0.95 * v[i] + 0.05 * double(g[i]) * g[i]; };
    expectNear(
        got[0],
        [&](size_t i) {
          return p[i] - 1e-3 * (m1(i) * 1.5 / (std::sqrt(v1(i) * 2.5) + 1e-8) + 0.1 * p[i]);
        },
        1e-6, 1e-6, "p");
    expectNear(got[1], m1, 1e-6, 1e-6, "m");
    expectNear(got[2], v1, 1e-6, 1e-7, "v");
  }
}

// Rotary embedding on [rows, heads, 2, half]: each half reads the other one.
TEST(ElementKernels, Rope) {
  for (int64_t half : {1, 5, 16, 32, 33}) {
    const int64_t rows = 9, heads = 3, size = rows * heads * 2 * half;
    KernelText k(rows);
    k.input("x", {rows, heads, 2, half}).input("cos", {rows, half}).input("sin", {rows, half});
    k.output("y", {rows, heads, 2, half});
    k.generic("r", {rows, heads, 2, half}, "r h p i", "pppp",
              {{"x", "r h p i"}, {"x", "r h 1-p i"}, {"cos", "r i"}, {"sin", "r i"}},
              {"y", "r h p i"},
              "%part = linalg.index 2 : index; %c0 = arith.constant 0 : index;"
              "%first = arith.cmpi eq, %part, %c0 : index; n = negf a1;"
              "%other = arith.select %first, %n, %a1 : f32;"
              "t = mulf a0 a2; u = mulf other a3; v = addf t u; yield v");
    k.returns({"r"});
    CompiledKernel kernel(k.text(), "k");
    Floats x = normal(size, 1), c = normal(rows * half, 2), s = normal(rows * half, 3);
    auto got = run(kernel, rows, {in(x), in(c), in(s), out(size)});
    expectNear(
        got[0],
        [&](size_t i) {
          size_t lane = i % half, part = i / half % 2, row = i / (heads * 2 * half);
          double other = part ? x[i - half] : -x[i + half];
          return double(x[i]) * c[row * half + lane] + other * s[row * half + lane];
        },
        2e-6, 1e-6, "rope");
  }
}

// The same by slices: two results put together with insert_slice.
TEST(ElementKernels, RopeBySlices) {
  const int64_t rows = 5, heads = 2, half = 20, size = rows * heads * 2 * half;
  KernelText k(rows);
  k.input("x", {rows, heads, 2, half}).input("cos", {rows, half}).input("sin", {rows, half});
  k.output("y", {rows, heads, 2, half});
  std::string part = "tensor<5x2x20xf32>", whole = "tensor<5x2x2x20xf32>",
              thin = "tensor<5x2x1x20xf32>";
  auto slice = [&](const std::string &name, const std::string &at) {
    k.raw(name, {rows, heads, half},
          "%" + name + " = tensor.extract_slice %x[0, 0, " + at +
              ", 0] [5, 2, 1, 20] [1, 1, 1, 1] : " + whole + " to " + part);
  };
  slice("a", "0");
  slice("b", "1");
  k.empty("e", {rows, heads, half});
  std::vector<KernelText::Access> ins = {
      {"a", "r h i"}, {"b", "r h i"}, {"cos", "r i"}, {"sin", "r i"}};
  k.generic("first", {rows, heads, half}, "r h i", "ppp", ins, {"e", "r h i"},
            "t = mulf a0 a2; u = mulf a1 a3; v = subf t u; yield v");
  k.generic("second", {rows, heads, half}, "r h i", "ppp", ins, {"e", "r h i"},
            "t = mulf a1 a2; u = mulf a0 a3; v = addf t u; yield v");
  for (std::string name : {"first", "second"})
    k.raw(name + "4", {rows, heads, 1, half},
          "%" + name + "4 = tensor.expand_shape %" + name +
              " [[0], [1, 2], [3]] output_shape "
              "[5, 2, 1, 20] : " +
              part + " into " + thin);
  k.raw("y1", {rows, heads, 2, half},
        "%y1 = tensor.insert_slice %first4 into %y[0, 0, 0, 0] "
        "[5, 2, 1, 20] [1, 1, 1, 1] : " +
            thin + " into " + whole);
  k.raw("y2", {rows, heads, 2, half},
        "%y2 = tensor.insert_slice %second4 into %y1[0, 0, 1, 0] "
        "[5, 2, 1, 20] [1, 1, 1, 1] : " +
            thin + " into " + whole);
  k.returns({"y2"});
  CompiledKernel kernel(k.text(), "k");
  Floats x = normal(size, 1), c = normal(rows * half, 2), s = normal(rows * half, 3);
  auto got = run(kernel, rows, {in(x), in(c), in(s), out(size)});
  expectNear(
      got[0],
      [&](size_t i) {
        size_t lane = i % half, which = i / half % 2, row = i / (heads * 2 * half);
        double other = which ? x[i - half] : -x[i + half];
        return double(x[i]) * c[row * half + lane] + other * s[row * half + lane];
      },
      2e-6, 1e-6, "rope");
}

// Rows of a table picked by index, zero where the index is out of range.
TEST(ElementKernels, Embedding) {
  for (int64_t cols : {1, 3, 17, 64, 257}) {
    const int64_t rows = 19, vocab = 11;
    KernelText k(rows);
    k.input("ids", {rows}, "i32").input("table", {vocab, cols}).output("y", {rows, cols});
    std::string table = "tensor<11x" + std::to_string(cols) + "xf32>";
    k.generic("g", {rows, cols}, "r c", "pp", {{"ids", "r"}}, {"y", "r c"},
              "%zero = arith.constant 0 : i32; %n = arith.constant 11 : i32; z = constant 0.0;"
              "%low = arith.cmpi sge, %a0, %zero : i32; %high = arith.cmpi slt, %a0, %n : i32;"
              "%in = arith.andi %low, %high : i1; %safe = arith.select %in, %a0, %zero : i32;"
              "%row = arith.index_cast %safe : i32 to index; %c = linalg.index 1 : index;"
              "%v = tensor.extract %table[%row, %c] : " +
                  table + "; %w = arith.select %in, %v, %z : f32; yield w");
    k.returns({"g"});
    CompiledKernel kernel(k.text(), "k");
    Ints ids(rows);
    for (int64_t r = 0; r < rows; ++r)
      ids[r] = int32_t(r * 5 % 15) - 2;
    Floats values = normal(vocab * cols, 1);
    auto got = run(kernel, rows, {in(ids), in(values), out(rows * cols)});
    expectNear(
        got[0],
        [&](size_t i) -> double {
          int32_t id = ids[i / cols];
          return id < 0 || id >= vocab ? 0 : values[id * cols + i % cols];
        },
        0, 0, "embedding");
  }
}

// Indices that differ by lane: single elements are gathered.
TEST(ElementKernels, GatherPerLane) {
  const int64_t n = 77, size = 30;
  KernelText k(n);
  k.input("ids", {n}, "i32").input("table", {size}).output("y", {n});
  k.generic("g", {n}, "i", "p", {{"ids", "i"}}, {"y", "i"},
            "%at = arith.index_cast %a0 : i32 to index;"
            "%v = tensor.extract %table[%at] : tensor<30xf32>; t = addf v v; yield t");
  k.returns({"g"});
  CompiledKernel kernel(k.text(), "k");
  Ints ids(n);
  for (int64_t i = 0; i < n; ++i)
    ids[i] = int32_t(i * 17 % size);
  Floats table = normal(size, 1);
  auto got = run(kernel, n, {in(ids), in(table), out(n)});
  expectNear(got[0], [&](size_t i) { return 2.0 * table[ids[i]]; }, 0, 0, "gather");
}

// Cross entropy of rows: log-sum-exp and loss; target -1 is ignored.
TEST(ElementKernels, CrossEntropy) {
  for (int64_t cols : {3, 17, 1000, 50257}) {
    const int64_t rows = 5;
    KernelText k(rows);
    k.input("x", {rows, cols}).input("target", {rows}, "i32");
    k.output("loss", {rows}).output("lse", {rows});
    k.fill("low", {rows}, "0xFF800000").fill("zero", {rows}, "0.0").empty("e", {rows});
    k.generic("max", {rows}, "r c", "pr", {{"x", "r c"}}, {"low", "r"},
              "t = maximumf o a0; yield t");
    k.generic("sum", {rows}, "r c", "pr", {{"x", "r c"}, {"max", "r"}}, {"zero", "r"},
              "t = subf a0 a1; u = exp t; v = addf o u; yield v");
    k.generic("hit", {rows}, "r c", "pr", {{"x", "r c"}, {"target", "r"}}, {"zero", "r"},
              "%c = linalg.index 1 : index; %ci = arith.index_cast %c : index to i32;"
              "%eq = arith.cmpi eq, %ci, %a1 : i32; z = constant 0.0;"
              "%t = arith.select %eq, %a0, %z : f32; u = addf o t; yield u");
    k.generic("l", {rows}, "r", "p", {{"max", "r"}, {"sum", "r"}}, {"lse", "r"},
              "t = log a1; u = addf a0 t; yield u");
    k.generic("ce", {rows}, "r", "p", {{"l", "r"}, {"hit", "r"}, {"target", "r"}}, {"loss", "r"},
              "%n = arith.constant 0 : i32; %in = arith.cmpi sge, %a2, %n : i32; z = constant 0.0;"
              "t = subf a0 a1; %u = arith.select %in, %t, %z : f32; yield u");
    k.returns({"ce", "l"});
    CompiledKernel kernel(k.text(), "k");
    Floats x = normal(rows * cols, 1, 3);
    Ints target = {0, int32_t(cols - 1), -1, int32_t(cols / 2), 1};
    auto got = run(kernel, rows, {in(x), in(target), out(rows), out(rows)});
    std::vector<double> lse(rows);
    for (int64_t r = 0; r < rows; ++r) {
      const float *row = &x[r * cols];
      double max = *std::max_element(row, row + cols), sum = 0;
      for (int64_t c = 0; c < cols; ++c)
        sum += std::exp(row[c] - max);
      lse[r] = max + std::log(sum);
    }
    expectNear(got[1], [&](size_t r) { return lse[r]; }, 2e-6, 0, "log-sum-exp");
    expectNear(
        got[0], [&](size_t r) { return target[r] < 0 ? 0 : lse[r] - x[r * cols + target[r]]; },
        2e-6, 2e-6, "loss");
  }
}

// bf16 in memory, f32 in registers: every bit of the rounding is checked.
TEST(ElementKernels, Bf16Storage) {
  for (int64_t n : {2, 14, 64, 510}) {
    KernelText k(n);
    k.input("x", {n}, "bf16").input("s", {n}).output("y", {n}, "bf16");
    k.generic("t", {n}, "i", "p", {{"x", "i"}, {"s", "i"}}, {"y", "i"},
              "%w = arith.extf %a0 : bf16 to f32; t = mulf w a1;"
              "%h = arith.truncf %t : f32 to bf16; yield h bf16",
              "bf16");
    k.returns({"t"});
    CompiledKernel kernel(k.text(), "k");
    Ints x = packBf16(normal(n, 1));
    Floats s = normal(n, 2), wide = unpackBf16(x);
    auto got = run(kernel, n, {in(x), in(s), out(n / 2)});
    for (int64_t i = 0; i < n; ++i)
      wide[i] *= s[i];
    Ints want = packBf16(wide), bits(n / 2);
    for (int64_t i = 0; i < n / 2; ++i)
      bits[i] = std::bit_cast<int32_t>(got[0][i]);
    EXPECT_EQ(bits, want) << n;
  }
}

// The error of the functions is at most 1e-6, over their whole range.
TEST(ElementKernels, MathFunctions) {
  const int64_t n = 40000;
  struct Case {
    const char *op;
    double low, high;
    double (*want)(double);
  };
  auto rsqrt = [](double x) { return 1 / std::sqrt(x); };
  for (Case c : {Case{"exp", -87, 88.3, std::exp}, Case{"log", 1e-30, 50, std::log},
                 Case{"tanh", -12, 12, std::tanh}, Case{"erf", -5, 5, std::erf},
                 Case{"rsqrt", 1e-20, 1e6, rsqrt}, Case{"exp", -2, 2, std::exp},
                 Case{"log", 0.5, 1.5, std::log}, Case{"tanh", -0.1, 0.1, std::tanh},
                 Case{"erf", -0.1, 0.1, std::erf}}) {
    KernelText k(n);
    k.input("x", {n}).output("y", {n});
    k.generic("t", {n}, "i", "p", {{"x", "i"}}, {"y", "i"},
              std::string("t = ") + c.op + " a0; yield t");
    k.returns({"t"});
    CompiledKernel kernel(k.text(), "k");
    Floats x(n);
    for (int64_t i = 0; i < n; ++i)
      x[i] = float(c.low + (c.high - c.low) * double(i) / n);
    auto got = run(kernel, n, {in(x), out(n)});
    expectNear(got[0], [&](size_t i) { return c.want(x[i]); }, 1e-6, 1e-30, c.op);
  }
}

TEST(ElementKernels, ExpOfSpecialValues) {
  KernelText k(6);
  k.input("x", {6}).output("y", {6});
  k.generic("t", {6}, "i", "p", {{"x", "i"}}, {"y", "i"}, "t = exp a0; yield t");
  k.returns({"t"});
  CompiledKernel kernel(k.text(), "k");
  const float inf = INFINITY;
  auto got = run(kernel, 6, {in(Floats{inf, -inf, NAN, 0, -100, 200}), out(6)})[0];
  EXPECT_EQ(got[0], inf);
  EXPECT_EQ(got[1], 0);
  EXPECT_TRUE(std::isnan(got[2]));
  EXPECT_EQ(got[3], 1);
  EXPECT_EQ(got[4], 0); // denormal results are flushed
  EXPECT_EQ(got[5], inf);
}

} // namespace

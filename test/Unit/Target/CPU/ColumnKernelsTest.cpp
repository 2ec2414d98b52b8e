//===- ColumnKernelsTest.cpp - reductions over rows -----------------------===//
//
// Kernels whose outer dimension is the columns: weight gradients. And sums to
// partial sums, and the scatter of an embedding's gradient.
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"
#include "KernelText.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace cleave::test;

namespace {

struct Shape {
  int64_t rows, cols;
};

class ColumnKernels : public testing::TestWithParam<Shape> {
protected:
  int64_t rows = GetParam().rows, cols = GetParam().cols;
  size_t all = size_t(rows * cols);
};

// dw = sum over rows of dy * x * rstd, db = sum over rows of dy, in one pass.
TEST_P(ColumnKernels, NormWeightGradients) {
  KernelText k(cols);
  k.input("dy", {rows, cols}).input("x", {rows, cols}).input("rstd", {rows});
  k.output("dw", {cols}).output("db", {cols}).fill("zero", {cols}, "0.0").empty("e", {rows, cols});
  k.generic("xhat", {rows, cols}, "r c", "pp", {{"x", "r c"}, {"rstd", "r"}}, {"e", "r c"},
            "t = mulf a0 a1; yield t");
  k.generic("w", {cols}, "c r", "pr", {{"dy", "r c"}, {"xhat", "r c"}}, {"zero", "c"},
            "t = mulf a0 a1; u = addf o t; yield u");
  k.generic("b", {cols}, "r c", "rp", {{"dy", "r c"}}, {"zero", "c"}, "u = addf o a0; yield u");
  k.returns({"w", "b"});

  CompiledKernel kernel(k.text(), "k");
  Floats dy = normal(all, 1), x = normal(all, 2), rstd = normal(rows, 3);
  auto got = run(kernel, cols, {in(dy), in(x), in(rstd), out(cols), out(cols)});
  auto over = [&](size_t c, auto &&f) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r)
      sum += f(r, r * cols + c);
    return sum;
  };
  double slack = 1e-5 * std::sqrt(double(rows));
  expectNear(
      got[0],
      [&](size_t c) {
        return over(c, [&](int64_t r, size_t i) { return double(dy[i]) * x[i] * rstd[r]; });
      },
      1e-5, slack, "dw");
  expectNear(
      got[1], [&](size_t c) { return over(c, [&](int64_t, size_t i) { return double(dy[i]); }); },
      1e-5, slack, "db");
}

// The gradient adds to what the destination holds, and the mean is taken after.
TEST_P(ColumnKernels, AccumulatesIntoItsDestination) {
  KernelText k(cols);
  k.input("x", {rows, cols}).output("acc", {cols}).output("mean", {cols});
  k.constant("n", std::to_string(rows) + ".0").fill("zero", {cols}, "0.0");
  k.generic("sum", {cols}, "c r", "pr", {{"x", "r c"}}, {"acc", "c"}, "u = addf o a0; yield u");
  k.generic("plain", {cols}, "c r", "pr", {{"x", "r c"}}, {"zero", "c"}, "u = addf o a0; yield u");
  k.generic("m", {cols}, "c", "p", {{"plain", "c"}}, {"mean", "c"}, "t = divf a0 n; yield t");
  k.returns({"sum", "m"});

  CompiledKernel kernel(k.text(), "k");
  Floats x = normal(all, 1), old = normal(cols, 2);
  auto got = run(kernel, cols, {in(x), inout(old), out(cols)});
  auto sum = [&](size_t c) {
    double total = 0;
    for (int64_t r = 0; r < rows; ++r)
      total += x[r * cols + c];
    return total;
  };
  double slack = 1e-5 * std::sqrt(double(rows));
  expectNear(got[0], [&](size_t c) { return old[c] + sum(c); }, 1e-5, slack, "sum");
  expectNear(got[1], [&](size_t c) { return sum(c) / rows; }, 1e-5, slack / rows, "mean");
}

// Partial sums of squares per chunk, and the sum of those.
TEST_P(ColumnKernels, PartialSums) {
  KernelText k(rows);
  k.input("x", {rows, cols}).output("parts", {rows}).fill("zero", {rows}, "0.0");
  k.generic("sum", {rows}, "r c", "pr", {{"x", "r c"}}, {"zero", "r"},
            "t = mulf a0 a0; u = addf o t; yield u");
  k.returns({"sum"});
  KernelText total(1);
  total.input("parts", {rows}).output("all", {1}).fill("zero", {1}, "0.0");
  total.generic("sum", {1}, "i r", "pr", {{"parts", "r"}}, {"zero", "i"}, "u = addf o a0; yield u");
  total.returns({"sum"});

  CompiledKernel first(k.text(), "k"), second(total.text(), "k");
  Floats x = normal(all, 1);
  auto parts = run(first, rows, {in(x), out(rows)});
  auto got = run(second, 1, {in(parts[0]), out(1)});
  double want = 0;
  for (float v : x)
    want += double(v) * v;
  expectNear(got[0], [&](size_t) { return want; }, 1e-5, 0, "sum of squares");
}

INSTANTIATE_TEST_SUITE_P(Shapes, ColumnKernels,
                         testing::Values(Shape{1, 1}, Shape{3, 17}, Shape{17, 3}, Shape{255, 1},
                                         Shape{257, 100}, Shape{64, 768}, Shape{3, 1000}),
                         [](const auto &info) {
                           return std::to_string(info.param.rows) + "x" +
                                  std::to_string(info.param.cols);
                         });

// d table[v, c] = sum over tokens t with ids[t] = v of dy[t, c]; ids out of range
// (-1: no token) add nowhere.
TEST(ScatterKernels, EmbeddingGradient) {
  for (int64_t cols : {1, 5, 64, 100}) {
    const int64_t vocab = 37, tokens = 61;
    KernelText k(vocab);
    k.input("ids", {tokens}, "i32").input("dy", {tokens, cols}).output("d", {vocab, cols});
    k.fill("zero", {vocab, cols}, "0.0");
    k.generic("sum", {vocab, cols}, "v c t", "ppr", {{"ids", "t"}, {"dy", "t c"}}, {"zero", "v c"},
              "%v = linalg.index 0 : index; %row = arith.index_cast %v : index to i32;"
              "%hit = arith.cmpi eq, %a0, %row : i32; z = constant 0.0;"
              "%x = arith.select %hit, %a1, %z : f32; u = addf o x; yield u");
    k.returns({"sum"});
    CompiledKernel kernel(k.text(), "k");
    Ints ids(tokens);
    for (int64_t t = 0; t < tokens; ++t)
      ids[t] = int32_t(t * t * 7 % 41) - 1;
    Floats dy = normal(tokens * cols, 1);
    auto got = run(kernel, vocab, {in(ids), in(dy), out(vocab * cols)});
    expectNear(
        got[0],
        [&](size_t i) {
          double sum = 0;
          for (int64_t t = 0; t < tokens; ++t)
            if (ids[t] == int32_t(i / cols))
              sum += dy[t * cols + i % cols];
          return sum;
        },
        1e-5, 1e-6, "embedding gradient");
  }
}

// Tokens in two dimensions, and ids that are computed (a shard's part of the rows).
TEST(ScatterKernels, TokensOfSeveralSequences) {
  const int64_t vocab = 23, batch = 3, length = 17, cols = 40, offset = 4;
  KernelText k(vocab);
  k.input("ids", {batch, length}, "i32").input("dy", {batch, length, cols});
  k.output("d", {vocab, cols}).fill("zero", {vocab, cols}, "0.0");
  k.raw("e", {batch, length}, "%e = tensor.empty() : tensor<3x17xi32>");
  k.raw("local", {batch, length},
        "%local = linalg.generic {indexing_maps = [affine_map<(b, t) -> (b, t)>, "
        "affine_map<(b, t) -> (b, t)>], iterator_types = [\"parallel\", \"parallel\"]} "
        "ins(%ids : tensor<3x17xi32>) outs(%e : tensor<3x17xi32>) { ^bb0(%i: i32, %o: i32): "
        "%c = arith.constant 4 : i32 %s = arith.subi %i, %c : i32 linalg.yield %s : i32 } "
        "-> tensor<3x17xi32>",
        "i32");
  k.generic("sum", {vocab, cols}, "v c b t", "pprr", {{"local", "b t"}, {"dy", "b t c"}},
            {"zero", "v c"},
            "%v = linalg.index 0 : index; %row = arith.index_cast %v : index to i32;"
            "%hit = arith.cmpi eq, %a0, %row : i32; z = constant 0.0;"
            "%x = arith.select %hit, %a1, %z : f32; u = addf o x; yield u");
  k.returns({"sum"});
  CompiledKernel kernel(k.text(), "k");
  Ints ids(batch * length);
  for (size_t t = 0; t < ids.size(); ++t)
    ids[t] = int32_t(t * 11 % 31);
  Floats dy = normal(ids.size() * cols, 1);
  auto got = run(kernel, vocab, {in(ids), in(dy), out(vocab * cols)});
  expectNear(
      got[0],
      [&](size_t i) {
        double sum = 0;
        for (size_t t = 0; t < ids.size(); ++t)
          if (ids[t] - offset == int32_t(i / cols))
            sum += dy[t * cols + i % cols];
        return sum;
      },
      1e-5, 1e-6, "embedding gradient");
}

} // namespace

//===- RowKernelsTest.cpp - row maps and row reductions -------------------===//

#include "KernelHarness.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace cleave::test;

namespace {

struct Shape {
  int64_t rows, cols;
};

std::string withShape(const char *text, Shape shape) {
  return substitute(text, {{"R", std::to_string(shape.rows)},
                           {"C", std::to_string(shape.cols)},
                           {"M", "tensor<" + std::to_string(shape.rows) + "x" +
                                     std::to_string(shape.cols) + "xf32>"},
                           {"V", "tensor<" + std::to_string(shape.rows) + "xf32>"},
                           {"W", "tensor<" + std::to_string(shape.cols) + "xf32>"}});
}

class RowKernels : public testing::TestWithParam<Shape> {};

// s = a + b, y = s * rsqrt(mean(s * s) + eps) * w, and rstd.
const char *const kAddRmsNorm = R"(
#mat = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
#col = affine_map<(r, c) -> (c)>
#id = affine_map<(r) -> (r)>
func.func @k(%a: ${M}, %b: ${M}, %w: ${W}, %s: ${M}, %y: ${M}, %rstd: ${V}) -> (${M}, ${M}, ${V})
    attributes {cleave.outputs = 3 : i64, cleave.space = ${R} : i64} {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant ${C}.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %sum = linalg.generic {indexing_maps = [#mat, #mat, #mat], iterator_types = ["parallel", "parallel"]}
      ins(%a, %b : ${M}, ${M}) outs(%s : ${M}) {
    ^bb0(%x: f32, %z: f32, %o: f32):
      %0 = arith.addf %x, %z : f32
      linalg.yield %0 : f32
  } -> ${M}
  %e = tensor.empty() : ${V}
  %init = linalg.fill ins(%zero : f32) outs(%e : ${V}) -> ${V}
  %squares = linalg.generic {indexing_maps = [#mat, #row], iterator_types = ["parallel", "reduction"]}
      ins(%sum : ${M}) outs(%init : ${V}) {
    ^bb0(%x: f32, %acc: f32):
      %0 = arith.mulf %x, %x : f32
      %1 = arith.addf %acc, %0 : f32
      linalg.yield %1 : f32
  } -> ${V}
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%squares : ${V}) outs(%rstd : ${V}) {
    ^bb0(%x: f32, %o: f32):
      %0 = arith.divf %x, %n : f32
      %1 = arith.addf %0, %eps : f32
      %2 = math.rsqrt %1 : f32
      linalg.yield %2 : f32
  } -> ${V}
  %norm = linalg.generic {indexing_maps = [#mat, #row, #col, #mat], iterator_types = ["parallel", "parallel"]}
      ins(%sum, %r, %w : ${M}, ${V}, ${W}) outs(%y : ${M}) {
    ^bb0(%x: f32, %f: f32, %g: f32, %o: f32):
      %0 = arith.mulf %x, %f : f32
      %1 = arith.mulf %0, %g : f32
      linalg.yield %1 : f32
  } -> ${M}
  return %sum, %norm, %r : ${M}, ${M}, ${V}
})";

TEST_P(RowKernels, AddRmsNorm) {
  auto [rows, cols] = GetParam();
  CompiledKernel kernel(withShape(kAddRmsNorm, GetParam()), "k");
  Floats a = normal(rows * cols, 1), b = normal(rows * cols, 2), w = normal(cols, 3);
  auto results = run(kernel, rows, {in(a), in(b), in(w), out(rows * cols), out(rows * cols), out(rows)});
  std::vector<double> rstd(rows);
  auto s = [&](size_t i) { return double(a[i] + b[i]); };
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c)
      sum += s(r * cols + c) * s(r * cols + c);
    rstd[r] = 1 / std::sqrt(sum / cols + 1e-5);
  }
  expectNear(results[0], s, 0, 0, "sum");
  expectNear(results[1], [&](size_t i) { return s(i) * rstd[i / cols] * w[i % cols]; }, 2e-6, 0, "y");
  expectNear(results[2], [&](size_t i) { return rstd[i]; }, 2e-6, 0, "rstd");
}

INSTANTIATE_TEST_SUITE_P(Shapes, RowKernels,
                         testing::Values(Shape{1, 1}, Shape{3, 17}, Shape{17, 3}, Shape{5, 255},
                                         Shape{7, 257}, Shape{33, 768}, Shape{255, 8}),
                         [](const auto &info) {
                           return std::to_string(info.param.rows) + "x" +
                                  std::to_string(info.param.cols);
                         });

} // namespace

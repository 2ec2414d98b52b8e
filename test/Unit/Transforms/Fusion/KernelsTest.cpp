//===- KernelsTest.cpp - Rope, tables, masks, in-place updates, sharing ---===//

#include "FusionHarness.h"
#include "dialects/Dist/Dist.h"
#include "test/Unit/Target/CPU/KernelHarness.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
namespace cleave::test {
namespace {

using Names = std::vector<std::string>;

// Angles must be right for positions far from 0, where position · frequency in
// f32 would be off by 1e-3.
TEST(Kernels, RopeAtFarPositions) {
  const int64_t tokens = 257, heads = 3, half = 5;
  Fused fused = fuse(R"(
!x = tensor<1x257x3x10xf32, #nn.dims<batch, sequence, kv_head, head_dim>>
func.func @f(%x: !x, %at: tensor<1x257xi32, #nn.dims<batch, sequence>>) -> !x {
  %y = nn.rope %x, %at {frequencies = array<f64: 1.0, 0.31, 0.1, 0.017, 0.0001>}
      : (!x, tensor<1x257xi32, #nn.dims<batch, sequence>>) -> !x
  return %y : !x
})");
  ASSERT_EQ(fused.groups.size(), 1u);
  EXPECT_EQ(fused.groups[0].extent, tokens);
  const double frequencies[half] = {1.0, 0.31, 0.1, 0.017, 0.0001};
  auto x = asFloats({randomTensor({1, tokens, heads, 2 * half}, 3)})[0];
  HostTensor positions({1, tokens});
  for (int64_t t = 0; t < tokens; ++t)
    positions.data[t] = static_cast<double>(t * 511 % 131072);
  HostTensor want(x.shape);
  for (int64_t row = 0; row < tokens * heads; ++row)
    for (int64_t k = 0; k < half; ++k) {
      double angle = positions.data[row / heads] * frequencies[k];
      double a = x.data[row * 2 * half + k], b = x.data[row * 2 * half + half + k];
      want.data[row * 2 * half + k] = a * std::cos(angle) - b * std::sin(angle);
      want.data[row * 2 * half + half + k] = b * std::cos(angle) + a * std::sin(angle);
    }
  expectClose(runKernels(fused, {x, positions})[0], want, 1e-6, "rope");
}

TEST(Kernels, RopeFusesWithWhatIsAround) {
  auto fused = expectSameAsInterpreter(R"(
!x = tensor<2x9x3x6xf32, #nn.dims<batch, sequence, kv_head, head_dim>>
!p = tensor<2x9xi32, #nn.dims<batch, sequence>>
!b = tensor<3x6xf32, #nn.dims<kv_head, head_dim>>
func.func @f(%x: !x, %at: !p, %b: !b, %scale: tensor<f32>) -> !x {
  %z = nn.add %x, %b : (!x, !b) -> !x
  %y = nn.rope %z, %at {frequencies = array<f64: 1.0, 0.31, 0.1>} : (!x, !p) -> !x
  %s = nn.mul %y, %scale : (!x, tensor<f32>) -> !x
  return %s : !x
})",
                                       1e-6, 4000);
  EXPECT_EQ(fused.groupNames(), Names{"nn.add nn.rope nn.mul"});
}

TEST(Kernels, RopeOnAPartOfTheHead) {
  for (const char *width : {"12", "60", "64"})
    expectSameAsInterpreter(substitute(R"(
!x = tensor<2x9x3x${w}xf32, #nn.dims<batch, sequence, kv_head, head_dim>>
!p = tensor<2x9xi32, #nn.dims<batch, sequence>>
!b = tensor<3x${w}xf32, #nn.dims<kv_head, head_dim>>
func.func @f(%x: !x, %at: !p, %b: !b) -> !x {
  %z = nn.add %x, %b : (!x, !b) -> !x
  %y = nn.rope %z, %at {frequencies = array<f64: 1.0, 0.31>} : (!x, !p) -> !x
  return %y : !x
})",
                                       {{"w", width}}),
                            1e-6, 4000);
}

// A block of a vocabulary: lookups and their gradient count from an offset.
TEST(Kernels, EmbeddingOfABlock) {
  for (const char *vocab : {"1", "17", "64"}) {
    std::string text = substitute(R"(
!e = tensor<${v}x4x8xf32, #nn.dims<vocab, kv_head, head_dim>>
!t = tensor<3x11xi32, #nn.dims<batch, sequence>>
!x = tensor<3x11x4x8xf32, #nn.dims<batch, sequence, kv_head, head_dim>>
func.func @f(%table: !e, %ids: !t, %first: tensor<i32>, %dy: !x) -> (!x, !e) {
  %y = nn.embedding %table, %ids, %first : (!e, !t, tensor<i32>) -> !x
  %d = nn.embedding_grad %ids, %dy, %first : (!t, !x, tensor<i32>) -> !e
  return %y, %d : !x, !e
})",
                                  {{"v", vocab}});
    auto fused = expectSameAsInterpreter(text, 1e-6, 40);
    EXPECT_EQ(fused.groups.size(), 2u);
  }
}

TEST(Kernels, AdamWRunsInPlace) {
  auto fused = expectSameAsInterpreter(R"(
!w = tensor<17x33xf32, #nn.dims<ffn, model>>
!s = tensor<f32>
func.func @f(%a: !w, %g: !w, %m: !w, %scale: !s, %rate: !s) -> (!w, !w, !w) {
  %p0 = nn.add %a, %g : (!w, !w) -> !w
  %v0 = nn.mul %m, %m : (!w, !w) -> !w
  %one = nn.fill {value = 0.5 : f64} : () -> !s
  %two = nn.fill {value = 0.25 : f64} : () -> !s
  %p, %m1, %v = nn.adamw %p0, %g, %m, %v0, %scale, %rate, %one, %two
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-3 : f64, weight_decay = 0.1 : f64,
       fusion.group = 77 : i64}
      : (!w, !w, !w, !w, !s, !s, !s, !s) -> (!w, !w, !w)
  return %p, %m1, %v : !w, !w, !w
})",
                                       1e-5);
  const KernelGroup &last = fused.groups.back();
  ASSERT_EQ(last.outputs.size(), 3u);
  EXPECT_EQ(last.extent, 17 * 33);
  EXPECT_TRUE(last.outputs[0].inPlace) << "a temporary that nobody reads again";
  EXPECT_FALSE(last.outputs[1].inPlace) << "the caller's argument stays as it is";
  EXPECT_TRUE(last.outputs[2].inPlace);
}

// A kept tensor is updated in place only where the result replaces it.
TEST(Kernels, StateIsReplacedInPlace) {
  const char *text = R"(
nn.parameter @p : tensor<8x6xf32, #nn.dims<ffn, model>> {file_shape = array<i64: 8, 6>, init_mean = 0.0 : f64, init_std = 0.02 : f64}
!w = tensor<8x6xf32, #nn.dims<ffn, model>>
!s = tensor<f32>
func.func @f(%scale: !s) {
  %p = nn.load @p value : !w
  %g = nn.load @p gradient : !w
  %m = nn.load @p moment1 : !w
  %v = nn.load @p moment2 : !w
  %new, %m1, %v1 = nn.adamw %p, %g, %m, %v, %scale, %scale, %scale, %scale
      {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, weight_decay = 0.1 : f64}
      : (!w, !w, !w, !w, !s, !s, !s, !s) -> (!w, !w, !w)
  nn.store %new, @p value : !w
  nn.store %m1, @p moment1 : !w
  nn.store %v1, @p gradient : !w
  return
})";
  Fused fused = fuse(text);
  ASSERT_EQ(fused.groups.size(), 1u);
  ASSERT_EQ(fused.groups[0].outputs.size(), 3u);
  EXPECT_TRUE(fused.groups[0].outputs[0].inPlace);
  EXPECT_TRUE(fused.groups[0].outputs[1].inPlace);
  EXPECT_FALSE(fused.groups[0].outputs[2].inPlace) << "stored in another slot";
  EXPECT_EQ(fused.groups[0].inputs.size(), 3u) << "gradient, scale, moment2";
}

TEST(Kernels, EqualGroupsShareAKernel) {
  Fused fused = fuse(R"(
!x = tensor<2x3x5xf32, #nn.dims<batch, sequence, model>>
!w = tensor<5xf32, #nn.dims<model>>
!r = tensor<2x3xf32, #nn.dims<batch, sequence>>
func.func @f(%x: !x, %a: !x, %w: !w, %v: !w) -> (!x, !x) {
  %y, %r = nn.rms_norm %x, %w {eps = 1.0e-5 : f64, nn.path = "mlp.norm"} : (!x, !w) -> (!x, !r)
  %z, %q = nn.rms_norm %a, %v {eps = 1.0e-5 : f64, nn.path = "mlp.norm"} : (!x, !w) -> (!x, !r)
  return %y, %z : !x, !x
})");
  ASSERT_EQ(fused.groups.size(), 2u);
  EXPECT_EQ(fused.groups[0].symbol, "k_mlp_norm");
  EXPECT_EQ(fused.groups[1].symbol, "k_mlp_norm");
  auto functions = fused.kernels->getOps<func::FuncOp>();
  EXPECT_EQ(std::distance(functions.begin(), functions.end()), 1);
  // Twice the input once, the weight and the result.
  EXPECT_EQ(fused.groups[0].bytes, 4 * (30 + 5 + 30));
}

// A large sum of squares goes by partial sums.
TEST(Kernels, LargeReductionsHaveTwoStages) {
  auto fused = expectSameAsInterpreter(R"(
!w = tensor<67x257xf32, #nn.dims<ffn, model>>
!b = tensor<257xf32, #nn.dims<model>>
!s = tensor<f32>
func.func @f(%x: !w, %b: !b) -> (!s, !s) {
  %a = nn.sum_squares %x : (!w) -> !s
  %c = nn.sum_squares %b : (!b) -> !s
  %sum = nn.add_n %a, %c : (!s, !s) -> !s
  %norm, %scale = nn.clip_scale %sum {max_norm = 2.0 : f64} : (!s) -> (!s, !s)
  return %norm, %scale : !s, !s
})",
                                       1e-5);
  EXPECT_EQ(fused.groupNames(),
            (Names{"nn.sum_squares", "nn.sum nn.sum_squares nn.add_n nn.clip_scale"}));
  EXPECT_EQ(fused.groups[0].extent, 67);
}

// Padding of a block depends on where the rank stands: rows, columns, and middle.
TEST(Kernels, MaskOfEveryRank) {
  for (int dim : {0, 1, 2}) {
    Fused fused = fuse(substitute(R"(
module {
  dist.mesh @mesh ["data", "tensor"] = [2, 2]
  func.func @f(%x: tensor<3x3x3xf32, #nn.dims<batch, sequence, model>>) -> tensor<3x3x3xf32, #nn.dims<batch, sequence, model>> {
    %y = dist.mask %x dim ${dim} size 5 value -1.5 on @mesh ["tensor"] : tensor<3x3x3xf32, #nn.dims<batch, sequence, model>>
    return %y : tensor<3x3x3xf32, #nn.dims<batch, sequence, model>>
  }
})",
                                  {{"dim", std::to_string(dim)}}));
    ASSERT_EQ(fused.groups.size(), 1u);
    auto x = asFloats({randomTensor({3, 3, 3}, 9)});
    for (int64_t coordinate : {0, 1}) {
      auto got = runKernels(fused, x, coordinate);
      HostTensor want = x[0];
      size_t position = 0;
      forEachIndex(want.shape, [&](ArrayRef<int64_t> i) {
        if (coordinate * 3 + i[dim] >= 5)
          want.data[position] = -1.5;
        ++position;
      });
      expectClose(got[0], want, 0, "mask along " + std::to_string(dim));
    }
  }
}

TEST(Kernels, KeepFirstOfAGroup) {
  Fused fused = fuse(R"(
module {
  dist.mesh @mesh ["data", "tensor"] = [2, 2]
  func.func @f(%x: tensor<f32>, %b: tensor<7xf32, #nn.dims<model>>) -> (tensor<f32>, tensor<7xf32, #nn.dims<model>>) {
    %y = dist.keep_first %x on @mesh ["tensor"] : tensor<f32>
    %c = dist.keep_first %b on @mesh ["data", "tensor"] : tensor<7xf32, #nn.dims<model>>
    return %y, %c : tensor<f32>, tensor<7xf32, #nn.dims<model>>
  }
})");
  ASSERT_EQ(fused.groups.size(), 2u);
  auto x = asFloats({randomTensor({}, 2), randomTensor({7}, 3)});
  for (int64_t coordinate : {0, 1, 3}) {
    auto got = runKernels(fused, x, coordinate);
    for (int i : {0, 1})
      expectClose(got[i], coordinate == 0 ? x[i] : HostTensor(x[i].shape), 0, "keep_first");
  }
}

} // namespace
} // namespace cleave::test

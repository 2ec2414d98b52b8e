//===- ChainsTest.cpp - Operators fused with their neighbours -------------===//

#include "FusionHarness.h"
#include "test/Unit/Target/CPU/KernelHarness.h"
#include <gtest/gtest.h>

using namespace mlir;
namespace cleave::test {
namespace {

using Names = std::vector<std::string>;

/// Types of the tests: x [batch, sequence, model], w [model], r [batch, sequence].
std::string types(int64_t batch, int64_t sequence, int64_t model) {
  return substitute(R"(
!x = tensor<${b}x${s}x${m}xf32, #nn.dims<batch, sequence, model>>
!w = tensor<${m}xf32, #nn.dims<model>>
!r = tensor<${b}x${s}xf32, #nn.dims<batch, sequence>>
!t = tensor<${b}x${s}xi32, #nn.dims<batch, sequence>>
!s = tensor<f32>
)",
                    {{"b", std::to_string(batch)},
                     {"s", std::to_string(sequence)},
                     {"m", std::to_string(model)}});
}

struct Sizes {
  int64_t batch, sequence, model;
};
class Chains : public testing::TestWithParam<Sizes> {
protected:
  std::string head = types(GetParam().batch, GetParam().sequence, GetParam().model);
};

TEST_P(Chains, ResidualAndNorm) {
  auto fused = expectSameAsInterpreter(head + R"(
func.func @f(%a: !x, %b: !x, %w: !w) -> (!x, !x, !r) {
  %s = nn.add %a, %b : (!x, !x) -> !x
  %y, %rstd = nn.rms_norm %s, %w {eps = 1.0e-5 : f64} : (!x, !w) -> (!x, !r)
  return %s, %y, %rstd : !x, !x, !r
})",
                                       1e-5);
  EXPECT_EQ(fused.groupNames(), Names{"nn.add nn.rms_norm"});
  EXPECT_EQ(fused.groups[0].extent, GetParam().batch * GetParam().sequence);
}

TEST_P(Chains, GatedActivationAndItsGradient) {
  auto fused = expectSameAsInterpreter(head + R"(
func.func @f(%g: !x, %u: !x, %dh: !x) -> (!x, !x, !x) {
  %a = nn.silu %g : (!x) -> !x
  %h = nn.mul %a, %u : (!x, !x) -> !x
  %du = nn.mul %dh, %a : (!x, !x) -> !x
  %da = nn.mul %dh, %u : (!x, !x) -> !x
  %dg = nn.silu_grad %g, %da : (!x, !x) -> !x
  return %h, %du, %dg : !x, !x, !x
})",
                                       1e-5);
  ASSERT_EQ(fused.groups.size(), 1u);
  EXPECT_EQ(fused.groups[0].extent, GetParam().batch * GetParam().sequence * GetParam().model);
}

// One operator, two kernels: tokens for the input gradient, columns for the weight's.
TEST_P(Chains, NormGradients) {
  auto fused = expectSameAsInterpreter(head + R"(
func.func @f(%x: !x, %w: !w, %rstd: !r, %dy: !x, %res: !x) -> (!x, !w) {
  %dx, %dw = nn.rms_norm_grad %x, %w, %rstd, %dy : (!x, !w, !r, !x) -> (!x, !w)
  %sum = nn.add %dx, %res : (!x, !x) -> !x
  return %sum, %dw : !x, !w
})",
                                       1e-4);
  ASSERT_EQ(fused.groups.size(), 2u);
  EXPECT_EQ(fused.groups[0].extent + fused.groups[1].extent,
            GetParam().batch * GetParam().sequence + GetParam().model);
}

TEST_P(Chains, LayerNormGradients) {
  auto fused = expectSameAsInterpreter(head + R"(
func.func @f(%x: !x, %w: !w, %b: !w, %dy: !x) -> (!x, !x, !w, !w) {
  %y, %mean, %rstd = nn.layer_norm %x, %w, %b {eps = 1.0e-2 : f64} : (!x, !w, !w) -> (!x, !r, !r)
  %dx, %dw, %db = nn.layer_norm_grad %x, %w, %mean, %rstd, %dy
      : (!x, !w, !r, !r, !x) -> (!x, !w, !w)
  return %y, %dx, %dw, %db : !x, !x, !w, !w
})",
                                       1e-4);
  EXPECT_EQ(fused.groups.size(), 2u);
}

TEST_P(Chains, BiasAndActivation) {
  auto fused = expectSameAsInterpreter(head + R"(
func.func @f(%x: !x, %b: !w, %dy: !x) -> (!x, !x, !w) {
  %z = nn.add %x, %b : (!x, !w) -> !x
  %y = nn.gelu %z {tanh} : (!x) -> !x
  %dz = nn.gelu_grad %z, %dy {tanh} : (!x, !x) -> !x
  %db = nn.sum %dz : (!x) -> !w
  return %y, %dz, %db : !x, !x, !w
})",
                                       1e-4);
  EXPECT_EQ(fused.groups.size(), 2u);
}

// The vocabulary is cut: the loss in parts, its gradient with an offset.
TEST_P(Chains, LossOfAVocabularyBlock) {
  auto fused = expectSameAsInterpreter(head + R"(
func.func @f(%x: !x, %t: !t, %offset: tensor<i32>, %scale: !s) -> (!r, !x, !s, !s) {
  %max, %sum, %hit = nn.cross_entropy_partial %x, %t, %offset : (!x, !t, tensor<i32>) -> (!r, !r, !r)
  %new = nn.rescale_sum %sum, %max, %max : (!r, !r, !r) -> !r
  %loss, %lse = nn.cross_entropy_combine %max, %new, %hit, %t : (!r, !r, !r, !t) -> (!r, !r)
  %total = nn.sum %loss : (!r) -> !s
  %count = nn.count_valid %t : (!t) -> !s
  %one = nn.fill {value = 1.0 : f64} : () -> !r
  %g = nn.mul %one, %scale : (!r, !s) -> !r
  %d = nn.cross_entropy_grad %x, %t, %lse, %g, %offset : (!x, !t, !r, !r, tensor<i32>) -> !x
  return %loss, %d, %total, %count : !r, !x, !s, !s
})",
                                       1e-4, GetParam().model);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Chains,
                         testing::Values(Sizes{1, 1, 1}, Sizes{1, 3, 17}, Sizes{3, 5, 255},
                                         Sizes{2, 9, 257}, Sizes{17, 1, 3}, Sizes{4, 64, 64}),
                         [](const auto &info) {
                           return std::to_string(info.param.batch) + "x" +
                                  std::to_string(info.param.sequence) + "x" +
                                  std::to_string(info.param.model);
                         });

} // namespace
} // namespace cleave::test

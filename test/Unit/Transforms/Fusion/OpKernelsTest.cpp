//===- OpKernelsTest.cpp - Every operator as a kernel of its own ----------===//

#include "FusionHarness.h"
#include <gtest/gtest.h>

using namespace mlir;
namespace cleave::test {
namespace {

/// The cases of operators that have a kernel, over the shapes of all operator
/// tests and over sizes around the width of a vector register.
std::vector<OpCase> kernelCases() {
  auto context = makeContext();
  std::vector<OpCase> cases;
  for (const OpCase &c : allCases())
    if (isa_and_nonnull<FusionOpInterface>(buildProgram(*context, c).op))
      cases.push_back(c);
  auto resized = [](std::string text, const std::string &dim, const std::string &size) {
    size_t at = text.find(dim + "=");
    if (at != std::string::npos) {
      size_t end = text.find(' ', at);
      text = text.substr(0, at) + dim + "=" + size +
             (end == std::string::npos ? "" : text.substr(end));
    }
    return text;
  };
  for (size_t i = 0, n = cases.size(); i < n; ++i)
    for (auto [dim, size] : std::initializer_list<std::pair<const char *, const char *>>{
             {"model", "1"}, {"model", "257"}, {"ffn", "255"}, {"vocab", "257"}, {"batch", "17"}}) {
      OpCase c = cases[i];
      for (auto *list : {&c.operands, &c.results})
        for (std::string &text : *list)
          text = resized(text, dim, size);
      if (c.operands != cases[i].operands)
        cases.push_back(c);
    }
  return cases;
}

class OpKernels : public testing::TestWithParam<OpCase> {};

TEST_P(OpKernels, AgreeWithTheInterpreter) {
  const OpCase &c = GetParam();
  Fused fused;
  fused.context = makeContext();
  Program p = buildProgram(*fused.context, c);
  ASSERT_TRUE(p.op) << "the case does not verify";
  fused.module = std::move(p.module);
  fused.function = p.function;
  auto operands = asFloats(randomOperands(c, 5));
  auto want = run(fused.function, operands);
  fuse(fused);
  ASSERT_FALSE(HasFailure());
  auto got = runKernels(fused, operands);
  for (auto [i, tensor] : llvm::enumerate(want))
    expectClose(got[i], tensor, 2e-5, "result " + std::to_string(i));
}

INSTANTIATE_TEST_SUITE_P(All, OpKernels, testing::ValuesIn(kernelCases()),
                         [](const auto &info) { return caseName(info.param, info.index); });

} // namespace
} // namespace cleave::test

//===- StepKernelsTest.cpp - every fused kernel of whole steps ------------===//
//
// The kernels of the golden models' steps, as `cleave compile --emit=kernels`
// prints them: all are emitted, run on the shim, and built by the CUDA toolkit.
//
//===----------------------------------------------------------------------===//

#include "ShimHarness.h"
#include "Toolkit.h"
#include "cleave/Target/Kernel/Contract.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace cleave::test {

namespace {
class StepKernels : public testing::TestWithParam<const char *> {
protected:
  /// Parses the kernels of the model's step.
  void SetUp() override {
    std::string golden = CLEAVE_TEST_GOLDEN, text, file = folder.file("kernels.mlir");
    int status = runCommand(CLEAVE_TEST_CLEAVE " compile " + golden + "/" + GetParam() +
                                " --cluster local:1 --pin dp=1 --recipe " + golden +
                                "/recipe.json --emit=kernels -o " + file,
                            text);
    ASSERT_EQ(status, 0) << text;
    context = kernelContext();
    kernels = parseSourceFile<ModuleOp>(file, context.get());
    ASSERT_TRUE(kernels);
  }

  ScratchFolder folder;
  std::unique_ptr<MLIRContext> context;
  OwningOpRef<ModuleOp> kernels;
};
} // namespace

TEST_P(StepKernels, AgreeWithTheReferenceOnTheShim) {
  ShimModule shim(*kernels);
  ASSERT_TRUE(shim.ok());
  size_t checked = 0;
  for (func::FuncOp kernel : kernels->getOps<func::FuncOp>()) {
    if (!kernel->hasAttr(target::kOutputsAttr))
      continue;
    for (unsigned seed : {1, 2})
      EXPECT_EQ(shim.check(kernel, seed), "") << kernel.getName().str() << ", seed " << seed;
    ++checked;
  }
  EXPECT_EQ(checked, shim.text().launches.size());
  EXPECT_GE(checked, 25u);
}

TEST_P(StepKernels, CompileWithNvccWithoutSpills) {
  FailureOr<std::string> text = cuda::emitCudaText(*kernels);
  ASSERT_TRUE(succeeded(text));
  expectNvccCompiles(*text);
}

TEST_P(StepKernels, CompileWithNvrtc) {
  FailureOr<std::string> text = cuda::emitCudaText(*kernels);
  ASSERT_TRUE(succeeded(text));
  expectNvrtcCompiles(*text);
}

INSTANTIATE_TEST_SUITE_P(Golden, StepKernels, testing::Values("t0", "gpt2-mini"),
                         [](const auto &model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace cleave::test

//===- KernelRefusalsTest.cpp - passes, profiles and refused kernels ------===//
//
// What the compiler says about kernels it cannot compile, and that its pipelines
// work from text and for profiles this machine may not run.
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"
#include "KernelText.h"
#include "cleave/Target/CPU/KernelCompiler.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include <gtest/gtest.h>

using namespace cleave::test;

namespace {

TEST(KernelPasses, CompilesForAvx512) {
  KernelText k(9);
  k.input("x", {9, 100}).output("y", {9, 100});
  k.fill("zero", {9}, "0.0");
  k.generic("s", {9}, "r c", "pr", {{"x", "r c"}}, {"zero", "r"},
            "t = exp a0; u = addf o t; yield u");
  k.generic("p", {9, 100}, "r c", "pp", {{"x", "r c"}, {"s", "r"}}, {"y", "r c"},
            "t = divf a0 a1; yield t");
  k.returns({"p"});
  mlir::DialectRegistry registry;
  cleave::cpu::registerKernelDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  std::string objects[2];
  for (int i = 0; i < 2; ++i) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(k.text(), &context);
    ASSERT_TRUE(module);
    auto object = cleave::cpu::compileObject(*module, cleave::cpu::Profile::avx512());
    ASSERT_TRUE(mlir::succeeded(object));
    objects[i] = (*object)->getBuffer().str();
  }
  EXPECT_GT(objects[0].size(), 500u);
  EXPECT_EQ(objects[0], objects[1]) << "the same kernel must give the same bytes";
}

/// Runs a textual pipeline on a small kernel; returns the diagnostics, and in
/// `left` the operations of dialects other than LLVM that remain.
std::string runPipeline(const std::string &pipeline, unsigned &left) {
  cleave::cpu::registerKernelPasses();
  mlir::DialectRegistry registry;
  cleave::cpu::registerKernelDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  std::string errors;
  context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
    errors += diagnostic.str() + "\n";
    return mlir::success();
  });
  KernelText k(8);
  k.input("x", {8}).output("y", {8});
  k.generic("t", {8}, "i", "p", {{"x", "i"}}, {"y", "i"}, "u = addf a0 a0; yield u");
  k.returns({"t"});
  auto module = mlir::parseSourceString<mlir::ModuleOp>(k.text(), &context);
  mlir::PassManager passes(&context);
  if (mlir::failed(mlir::parsePassPipeline(pipeline, passes)))
    return "unknown pipeline";
  if (mlir::failed(passes.run(*module)) && errors.empty())
    return "failed without a diagnostic";
  left = 0;
  module->walk([&](mlir::Operation *op) {
    left += op->getDialect()->getNamespace() != "llvm" && op != module->getOperation();
  });
  return errors;
}

TEST(KernelPasses, TextualPipelines) {
  unsigned left = 1;
  EXPECT_EQ(runPipeline("cleave-cpu-kernels{profile=avx512}", left), "");
  EXPECT_EQ(left, 0u);
  EXPECT_EQ(runPipeline("cleave-cpu-lower-kernels", left), "");
  EXPECT_GT(left, 0u);
  EXPECT_NE(runPipeline("cleave-cpu-kernels{profile=z80}", left).find("profile 'z80'"),
            std::string::npos);
}

/// Expects that the kernel is refused, with its name and `reason`.
void expectRefused(const std::string &text, const std::string &reason) {
  CompiledKernel kernel(text, "k");
  EXPECT_FALSE(kernel.ok());
  EXPECT_NE(kernel.errors().find("kernel 'k' cannot be compiled"), std::string::npos)
      << kernel.errors();
  EXPECT_NE(kernel.errors().find(reason), std::string::npos) << kernel.errors();
}

TEST(KernelRefusals, RowsThatNeedOtherRows) {
  KernelText k(8);
  k.input("x", {8, 8}).output("y", {8, 8}).fill("zero", {8}, "0.0");
  k.generic("s", {8}, "r c", "pr", {{"x", "r c"}}, {"zero", "r"}, "u = addf o a0; yield u");
  k.generic("t", {8, 8}, "r c", "pp", {{"x", "r c"}, {"s", "7-r"}}, {"y", "r c"},
            "u = addf a0 a1; yield u");
  k.returns({"t"});
  expectRefused(k.text(), "needs this reduction of other rows");
}

TEST(KernelRefusals, WrongSpace) {
  KernelText k(7);
  k.input("x", {8}).output("y", {8});
  k.generic("t", {8}, "i", "p", {{"x", "i"}}, {"y", "i"}, "u = addf a0 a0; yield u");
  k.returns({"t"});
  expectRefused(k.text(), "outer dimension (7) first");
}

TEST(KernelRefusals, OverwritesWhatItStillReads) {
  KernelText k(8);
  k.output("y", {8, 2, 8});
  k.generic("t", {8, 2, 8}, "r p i", "ppp", {{"y", "r 1-p i"}}, {"y", "r p i"},
            "u = addf a0 o; yield u");
  k.returns({"t"});
  expectRefused(k.text(), "still has to read");
}

TEST(KernelRefusals, UnknownOperations) {
  KernelText k(8);
  k.input("x", {8}).output("y", {8});
  k.raw("p", {8},
        "%p = tensor.generate { ^bb0(%i: index): %c = arith.constant 0.0 : f32 "
        "tensor.yield %c : f32 } : tensor<8xf32>");
  k.generic("t", {8}, "i", "p", {{"p", "i"}}, {"y", "i"}, "u = addf a0 a0; yield u");
  k.returns({"t"});
  expectRefused(k.text(), "tensor.generate");
}

TEST(KernelRefusals, ArithmeticInBf16) {
  KernelText k(8);
  k.input("x", {8}, "bf16").output("y", {8}, "bf16");
  k.generic("t", {8}, "i", "p", {{"x", "i"}}, {"y", "i"},
            "%t = arith.addf %a0, %a0 : bf16; yield t bf16", "bf16");
  k.returns({"t"});
  expectRefused(k.text(), "computes in f32");
}

TEST(KernelRefusals, RowsTooLargeForTheStack) {
  const int64_t cols = 70000;
  KernelText k(4);
  k.input("x", {4, cols, 2})
      .output("y", {4, cols})
      .fill("zero", {4, cols}, "0.0")
      .empty("e", {4, cols});
  k.generic("s", {4, cols}, "r c p", "ppr", {{"x", "r c p"}}, {"zero", "r c"},
            "u = addf o a0; yield u");
  k.generic("t", {4, cols}, "r c", "pp", {{"s", "r c"}}, {"y", "r c"}, "u = mulf a0 a0; yield u");
  k.returns({"t"});
  expectRefused(k.text(), "bytes of intermediate values");
}

} // namespace

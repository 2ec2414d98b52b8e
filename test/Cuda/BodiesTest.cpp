//===- BodiesTest.cpp - kinds of kernels at odd sizes ---------------------===//
//
// One kernel for each way of computing rows, at sizes around what a warp, a group
// of four or a block takes; then text with bugs planted in it, which the shim must
// notice.
//
//===----------------------------------------------------------------------===//

#include "Bodies.h"
#include "ShimHarness.h"
#include "Toolkit.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace cleave::test {

static std::string replaceAll(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// A module with each of `bodies` at each pair of sizes.
static std::string moduleOf(const std::vector<const char *> &bodies,
                            const std::vector<std::pair<int, int>> &sizes) {
  std::string text = kMaps;
  for (const char *body : bodies)
    for (auto [rows, columns] : sizes) {
      std::string kernel = replaceAll(body, "${R}", std::to_string(rows));
      kernel = replaceAll(std::move(kernel), "${C}", std::to_string(columns));
      text += replaceAll(std::move(kernel), "${N}",
                         std::to_string(rows) + "x" + std::to_string(columns));
    }
  return text;
}

static OwningOpRef<ModuleOp> parse(const std::string &text, MLIRContext &context) {
  auto module = parseSourceString<ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text.substr(0, 2000);
  return module;
}

static void expectAllAgree(ModuleOp kernels, const ShimModule &shim) {
  for (func::FuncOp kernel : kernels.getOps<func::FuncOp>())
    for (unsigned seed : {1, 2})
      EXPECT_EQ(shim.check(kernel, seed), "") << kernel.getName().str() << ", seed " << seed;
}

static const std::vector<std::pair<int, int>> kOddSizes = {
    {1, 1}, {3, 17}, {17, 3}, {5, 255}, {257, 5}, {7, 64}, {33, 257}, {2, 2048}, {1, 5000}};

TEST(CudaBodies, AgreeWithTheReferenceAtOddSizes) {
  auto context = kernelContext();
  auto kernels = parse(moduleOf(kAllBodies, kOddSizes), *context);
  ShimModule shim(*kernels);
  ASSERT_TRUE(shim.ok());
  expectAllAgree(*kernels, shim);
}

TEST(CudaBodies, UseEveryTeam) {
  auto context = kernelContext();
  auto kernels = parse(moduleOf(kAllBodies, kOddSizes), *context);
  FailureOr<std::string> text = cuda::emitCudaText(*kernels);
  ASSERT_TRUE(succeeded(text));
  for (const char *part :
       {"elements, over the whole grid", "one for each thread", "one for each warp",
        "one for each block", "neighbours side by side", "= reduceWarp<", "reduceBlock<Maximum, ",
        "reduceColumn<Sum, ", "__shared__ __align__(16) float buffer0", "rank == 0 && active",
        " == row) {"})
    EXPECT_NE(text->find(part), std::string::npos) << part;
}

TEST(CudaBodies, CompileWithNvccWithoutSpills) {
  auto context = kernelContext();
  auto kernels = parse(moduleOf(kAllBodies, {{33, 257}, {64, 1024}}), *context);
  FailureOr<std::string> text = cuda::emitCudaText(*kernels);
  ASSERT_TRUE(succeeded(text));
  expectNvccCompiles(*text);
}

TEST(CudaBodies, CompileWithNvrtc) {
  auto context = kernelContext();
  auto kernels = parse(moduleOf(kAllBodies, {{33, 257}, {64, 1024}}), *context);
  FailureOr<std::string> text = cuda::emitCudaText(*kernels);
  ASSERT_TRUE(succeeded(text));
  expectNvrtcCompiles(*text);
}

TEST(CudaText, IsTheSameForTheSameKernels) {
  auto context = kernelContext();
  auto kernels = parse(moduleOf(kAllBodies, {{7, 64}}), *context);
  FailureOr<std::string> first = cuda::emitCudaText(*kernels),
                         second = cuda::emitCudaText(*kernels);
  ASSERT_TRUE(succeeded(first) && succeeded(second));
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(first->find("asm"), std::string::npos);
  EXPECT_EQ(first->find("#include"), std::string::npos);
}

TEST(CudaText, LeavesFunctionsThatAreNotFusedToOthersAndNamesThem) {
  auto context = kernelContext();
  auto kernels =
      parse(moduleOf({kScale}, {{7, 64}}) + "func.func @attention_0(%x: i64) { return }", *context);
  FailureOr<cuda::Text> text = cuda::emitCuda(*kernels);
  ASSERT_TRUE(succeeded(text));
  EXPECT_EQ(text->launches.size(), 1u);
  EXPECT_NE(text->source.find("// attention_0: "), std::string::npos);
}

TEST(CudaText, RefusesAKernelThatCannotBePrinted) {
  auto context = kernelContext();
  std::string error;
  context->getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
    error += diagnostic.str();
    return success();
  });
  std::string text = replaceAll(moduleOf({kScale}, {{7, 64}}), "arith.negf", "math.atan");
  auto kernels = parse(text, *context);
  EXPECT_TRUE(failed(cuda::emitCudaText(*kernels)));
  EXPECT_EQ(error, "emit.cuda_unsupported: kernel 'scale_7x64' cannot be printed: 'math.atan' has "
                   "no CUDA expression here");
}

/// Whether some seed shows that the kernel is wrong.
static bool noticed(const ShimModule &shim, func::FuncOp kernel, std::string *what = nullptr) {
  for (unsigned seed = 1; seed <= 10; ++seed)
    if (std::string wrong = shim.check(kernel, seed); !wrong.empty()) {
      if (what)
        *what = wrong;
      return true;
    }
  return false;
}

/// Text without the `number`-th `what`, from zero.
static std::string without(std::string text, const std::string &what, unsigned number) {
  size_t at = text.find(what);
  for (unsigned i = 0; i < number && at != std::string::npos; ++i)
    at = text.find(what, at + 1);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), "");
}

TEST(CudaShim, NoticesAMissingBarrier) {
  auto context = kernelContext();
  auto softmax = parse(moduleOf({kSoftmax}, {{2, 2048}}), *context);
  auto columns = parse(moduleOf({kColumnSum}, {{257, 64}}), *context);
  struct Planted {
    ModuleOp kernels;
    unsigned barrier; ///< which one of the text is left out
  };
  // Both of reduceBlock, then the one in reduceColumn's loop.
  for (Planted planted : {Planted{*softmax, 0}, {*softmax, 1}, {*columns, 2}}) {
    ShimModule shim(planted.kernels, [&](std::string text) {
      return without(std::move(text), "__syncthreads();", planted.barrier);
    });
    ASSERT_TRUE(shim.ok());
    EXPECT_TRUE(noticed(shim, *planted.kernels.getOps<func::FuncOp>().begin()))
        << "barrier " << planted.barrier;
  }
}

TEST(CudaShim, ReportsABarrierThatSomeThreadsMiss) {
  auto context = kernelContext();
  auto kernels = parse(moduleOf({kSoftmax}, {{2, 2048}}), *context);
  ShimModule shim(*kernels, [](std::string text) {
    return replaceAll(std::move(text), "const int rank = threadIdx.x;",
                      "const int rank = threadIdx.x;\n  if (rank >= 64)\n    return;");
  });
  ASSERT_TRUE(shim.ok());
  std::string what;
  EXPECT_TRUE(noticed(shim, *kernels->getOps<func::FuncOp>().begin(), &what));
  EXPECT_NE(what.find("a barrier is reached by some threads"), std::string::npos) << what;
}

TEST(CudaShim, ReportsADeadlock) {
  auto context = kernelContext();
  auto kernels = parse(moduleOf({kSoftmax}, {{7, 64}}), *context);
  ShimModule shim(*kernels, [](std::string text) {
    return replaceAll(std::move(text), "  for (int offset = 16;",
                      "  if (threadIdx.x % 32 == 7)\n    __syncthreads();\n"
                      "  for (int offset = 16;");
  });
  ASSERT_TRUE(shim.ok());
  std::string what;
  EXPECT_TRUE(noticed(shim, *kernels->getOps<func::FuncOp>().begin(), &what));
  EXPECT_NE(what.find("deadlock"), std::string::npos) << what;
}

} // namespace cleave::test

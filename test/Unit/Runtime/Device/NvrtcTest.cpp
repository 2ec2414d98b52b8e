// NVIDIA's run-time compiler, where it is.
#include "runtime/Device/CUDA/Nvrtc.h"

#include "CudaHarness.h"
#include "gtest/gtest.h"

#include <cstdlib>
#include <filesystem>

namespace cleave::rt {
namespace {

using NvrtcCode = WithOwnCache;

TEST_F(NvrtcCode, IsMadeForEachArchitecture) {
  if (const auto nvrtc = Nvrtc::open(); !nvrtc.ok()) {
    EXPECT_EQ(nvrtc.error().kind, "device.compiler_missing");
    GTEST_SKIP() << renderText(nvrtc.error());
  }
  for (const char *architecture : {"sm_80", "sm_90", "sm_100"}) {
    const auto cubin = cubinOf(kTwiceText, architecture);
    ASSERT_TRUE(cubin.ok()) << renderText(cubin.error());
    // An ELF file that has the kernel.
    EXPECT_EQ(cubin->substr(1, 3), "ELF");
    EXPECT_NE(cubin->find("twice"), std::string::npos);
    // Kept under the architecture.
    const auto again = cubinOf(kTwiceText, architecture);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, *cubin);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 3);
  const auto unknown = cubinOf(kTwiceText, "sm_10");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, "device.architecture_unsupported");
  const auto wrong = cubinOf("__global__ void f() { undefined(); }", "sm_90");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("undefined"), std::string::npos);
}

} // namespace
} // namespace cleave::rt

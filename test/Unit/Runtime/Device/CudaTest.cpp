// Work on NVIDIA's GPUs, with the stand-ins of test/Cuda/Double in place of the driver and NVRTC.
#include "runtime/Device/CUDA/CudaDevice.h"

#include "CudaHarness.h"
#include "gtest/gtest.h"

#include <cstdlib>
#include <filesystem>

namespace cleave::rt {
namespace {

class Cuda : public WithOwnCache {
protected:
  ~Cuda() override { ::unsetenv("CLEAVE_DOUBLE_FAULT"); }
};

struct Numbers {
  DeviceBytes in, out;
  float *from() const { return reinterpret_cast<float *>(in.start.get()); }
  float *to() const { return reinterpret_cast<float *>(out.start.get()); }
};

StatusOr<Numbers> numbersOn(RankDevice &rank) {
  Numbers numbers;
  CLEAVE_RT_ASSIGN_OR_RETURN(numbers.in, rank.allocate(64 * 4, "numbers"));
  CLEAVE_RT_ASSIGN_OR_RETURN(numbers.out, rank.allocate(64 * 4, "results"));
  CLEAVE_RT_RETURN_IF_ERROR(rank.finish());
  return numbers;
}

TEST_F(Cuda, WorkIsDoneInOrderWhenItIsWaitedFor) {
  auto device = CudaDevice::create(kTwiceText);
  ASSERT_TRUE(device.ok()) << renderText(device.error());
  EXPECT_EQ((*device)->describe(), "2 × Stand-in (sm_90)");
  auto rank = (*device)->onRank(0, 0);
  ASSERT_TRUE(rank.ok()) << renderText(rank.error());
  auto numbers = numbersOn(**rank);
  ASSERT_TRUE(numbers.ok());
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(numbers->from()[i], 0);
    numbers->from()[i] = static_cast<float>(i);
  }
  auto twice = (*rank)->prepare({"twice", 2, 32, {numbers->from(), numbers->to()}});
  ASSERT_TRUE(twice.ok());
  auto back = (*rank)->copy(numbers->in.start.get(), numbers->out.start.get(), 64 * 4);
  auto cleared = (*rank)->zero(numbers->in.start.get(), 4 * 4);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE((*twice)().ok() && back().ok());
  ASSERT_TRUE(cleared().ok());
  EXPECT_EQ(numbers->from()[5], 5) << "of a stand-in that works ahead";
  ASSERT_TRUE((*rank)->finish().ok());
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(numbers->from()[i], i < 4 ? 0 : 8 * i);
  EXPECT_FALSE((*rank)->prepare({"nobody", 1, 1, {}}).ok());
}

TEST_F(Cuda, ErrorsAreNamed) {
  auto device = CudaDevice::create(kTwiceText);
  ASSERT_TRUE(device.ok());
  auto rank = (*device)->onRank(3, 3);
  ASSERT_TRUE(rank.ok());
  auto numbers = numbersOn(**rank);
  ASSERT_TRUE(numbers.ok());
  ::setenv("CLEAVE_DOUBLE_FAULT", "cuMemAllocManaged:2", 1);
  const auto none = (*rank)->allocate(1 << 20, "too much");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, "runtime.out_of_memory");
  EXPECT_NE(none.error().message.find("too much"), std::string::npos);
  ::setenv("CLEAVE_DOUBLE_FAULT", "cuLaunchKernel:719", 1);
  auto twice = (*rank)->prepare({"twice", 2, 32, {numbers->from(), numbers->to()}});
  ASSERT_TRUE(twice.ok());
  const Status failed = (*twice)();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, "device.failed");
  EXPECT_NE(failed.error().message.find("twice"), std::string::npos);
  EXPECT_NE(failed.error().message.find("CUDA_ERROR_LAUNCH_FAILED"), std::string::npos);
}

TEST_F(Cuda, ATextThatIsRefusedEndsAtOnce) {
  const auto device = CudaDevice::create("void f() {}");
  ASSERT_FALSE(device.ok());
  EXPECT_NE(device.error().message.find("there is no kernel"), std::string::npos);
}

} // namespace
} // namespace cleave::rt

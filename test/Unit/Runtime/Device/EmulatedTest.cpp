// CUDA text on the processor: launches, errors, one state a rank, and the cache.
#include "runtime/Device/Emulated/EmulatedDevice.h"

#include "CudaHarness.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace cleave::rt {
namespace {

constexpr const char *kText = R"(
extern "C" __global__ void __launch_bounds__(64) sums(const float *in, float *out) {
  __shared__ float all[64];
  all[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 64; ++i)
    sum += all[i];
  out[blockIdx.x * 64 + threadIdx.x] = sum;
}
extern "C" __global__ void half_waits(float *out) {
  if (threadIdx.x % 2)
    __syncthreads();
  out[threadIdx.x] = 1;
}
)";

class Emulated : public WithOwnCache {
protected:
  static StatusOr<std::unique_ptr<EmulatedDevice>> device(const std::string &text = kText) {
    return EmulatedDevice::create(text, {"sums", "half_waits"});
  }
  std::vector<std::filesystem::path> cached() const {
    std::vector<std::filesystem::path> files;
    if (std::filesystem::exists(folder))
      for (const auto &entry : std::filesystem::directory_iterator(folder))
        files.push_back(entry.path());
    return files;
  }
};

/// Blocks of numbers whose sums are 64 · 1, 64 · 2, ….
struct Blocks {
  std::vector<float> in, out;
  explicit Blocks(int blocks) : in(64 * blocks), out(64 * blocks) {
    for (size_t i = 0; i < in.size(); ++i)
      in[i] = static_cast<float>(i / 64 + 1);
  }
  bool areSummed() const {
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i] != 64 * in[i])
        return false;
    return true;
  }
};

TEST_F(Emulated, RanksHaveAStateOfTheirOwn) {
  const auto opened = device();
  ASSERT_TRUE(opened.ok()) << renderText(opened.error());
  auto one = (*opened)->onRank(1, 0), two = (*opened)->onRank(2, 1);
  ASSERT_TRUE(one.ok() && two.ok());
  Blocks first(3), second(200);
  auto sums = (*one)->prepare({"sums", 3, 64, {first.in.data(), first.out.data()}});
  auto more = (*two)->prepare({"sums", 200, 64, {second.in.data(), second.out.data()}});
  ASSERT_TRUE(sums.ok() && more.ok());
  std::thread beside([&] { EXPECT_TRUE((*more)().ok()); });
  for (int i = 0; i < 30; ++i) {
    std::fill(first.out.begin(), first.out.end(), 0.0f);
    EXPECT_TRUE((*sums)().ok());
    EXPECT_TRUE(first.areSummed());
  }
  beside.join();
  EXPECT_TRUE(second.areSummed());
}

TEST_F(Emulated, AFailedKernelIsNamedAndTheNextOneRuns) {
  const auto opened = device();
  ASSERT_TRUE(opened.ok());
  auto launcher = (*opened)->onRank(1, 0);
  ASSERT_TRUE(launcher.ok());
  Blocks blocks(2);
  auto bad = (*launcher)->prepare({"half_waits", 1, 64, {blocks.out.data()}});
  auto good = (*launcher)->prepare({"sums", 2, 64, {blocks.in.data(), blocks.out.data()}});
  ASSERT_TRUE(bad.ok() && good.ok());
  const Status failed = (*bad)();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, "device.kernel_failed");
  EXPECT_NE(failed.error().message.find("half_waits"), std::string::npos);
  EXPECT_NE(failed.error().message.find("barrier"), std::string::npos);
  EXPECT_TRUE((*good)().ok());
  EXPECT_TRUE(blocks.areSummed());
  EXPECT_FALSE((*launcher)->prepare({"nobody", 1, 1, {}}).ok());
}

TEST_F(Emulated, KeepsWhatItHasCompiled) {
  ASSERT_TRUE(device().ok());
  ASSERT_EQ(cached().size(), 1u);
  const auto when = std::filesystem::last_write_time(cached()[0]);
  ASSERT_TRUE(device().ok());
  ASSERT_EQ(cached().size(), 1u);
  EXPECT_EQ(std::filesystem::last_write_time(cached()[0]), when);
  // What was cut off is made again.
  std::filesystem::resize_file(cached()[0], 1000);
  EXPECT_TRUE(device().ok());
  EXPECT_GT(std::filesystem::file_size(cached()[0]), 10000u);
  // A folder that can't be made costs time alone.
  setFolder("/dev/null/cache");
  EXPECT_TRUE(device().ok());
}

TEST_F(Emulated, SaysWhatItLacks) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  const auto opened = device(std::string(kText) + "// another one\n");
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, "device.compiler_missing");
  EXPECT_EQ(opened.error().exitCode, ExitCode::Missing);
  const auto refused = device("this is no text");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, "internal");
}

} // namespace
} // namespace cleave::rt

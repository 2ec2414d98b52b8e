// A text with one kernel, and a cache that is a test's own.
#pragma once

#include "gtest/gtest.h"

#include <cstdlib>
#include <filesystem>
#include <string>

namespace cleave::rt {

inline constexpr const char *kTwiceText = R"(
extern "C" __global__ void __launch_bounds__(32) twice(const float *in, float *out) {
  out[blockIdx.x * 32 + threadIdx.x] = 2 * in[blockIdx.x * 32 + threadIdx.x];
}
)";

/// What is compiled is kept in `folder`, which goes with the test.
class WithOwnCache : public testing::Test {
protected:
  WithOwnCache() { setFolder(folder); }
  ~WithOwnCache() override { std::filesystem::remove_all(folder); }
  static void setFolder(const std::string &path) {
    ::setenv("CLEAVE_CACHE", path.c_str(), /*overwrite=*/1);
  }
  const std::string folder = testing::TempDir() + "/cache-" +
                             testing::UnitTest::GetInstance()->current_test_info()->name();
};

} // namespace cleave::rt

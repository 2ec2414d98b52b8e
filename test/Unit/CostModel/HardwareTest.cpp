//===- HardwareTest.cpp - The files of share/hardware and share/hosts -------===//

#include "cleave/CostModel/Hardware.h"
#include "cleave/CostModel/HostProfile.h"
#include <gtest/gtest.h>

namespace cleave::cost {
namespace {

TEST(Hardware, EveryFileReadsAndStaysBelowItsDataSheet) {
  const std::vector<std::string> names = deviceNames(CLEAVE_SHARE);
  ASSERT_GE(names.size(), 11u);
  for (const std::string &name : names) {
    auto device = readDevice(CLEAVE_SHARE, name);
    ASSERT_TRUE(device.ok()) << rt::renderText(device.error());
    EXPECT_EQ((*device).name, name);
    for (auto [width, rate] : (*device).product.rate) {
      // What kernels reach is below the dense peak, and above half of it or so: a peak of
      // sparse matrices in its place would break the second.
      ASSERT_TRUE((*device).peak.count(width)) << name;
      EXPECT_LT(rate.value, (*device).peak.at(width).value) << name;
      EXPECT_GT(rate.value, 0.45 * (*device).peak.at(width).value) << name;
    }
  }
}

TEST(Hardware, DensePeaksOfDataSheets) {
  // NVIDIA prints 1979 TFLOP/s for bf16 on H100 "with sparsity".
  EXPECT_EQ((*readDevice(CLEAVE_SHARE, "h100-sxm-80gb")).peak.at(16).value, 989e12);
  EXPECT_EQ((*readDevice(CLEAVE_SHARE, "a100-sxm-80gb")).peak.at(16).value, 312e12);
}

TEST(Hardware, AnUnknownDeviceNamesTheNearest) {
  auto device = readDevice(CLEAVE_SHARE, "h100-sxm-80");
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().kind, "device.unknown");
  ASSERT_FALSE(device.error().suggestions.empty());
  EXPECT_EQ(device.error().suggestions.front(), "h100-sxm-80gb");
}

TEST(Hardware, AnUnknownHostIsRefused) {
  auto host = readHostProfile(CLEAVE_SHARE, "megatronn");
  ASSERT_FALSE(host.ok());
  EXPECT_EQ(host.error().kind, "host.unknown");
}

} // namespace
} // namespace cleave::cost

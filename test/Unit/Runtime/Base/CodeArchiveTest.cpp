#include "runtime/Base/CodeArchive.h"

#include "gtest/gtest.h"

namespace cleave::rt {
namespace {

TEST(CodeArchive, ADeviceGetsWhatItRunsBest) {
  std::string archive;
  EXPECT_EQ(codeFor(archive, 9, 0), "");
  addCode(archive, "sm_80", "eighty\n with a line");
  addCode(archive, "sm_90", "ninety");
  addCode(archive, "sm_90a", std::string("with\0zero", 9));
  addCode(archive, "sm_100", "hundred");
  EXPECT_EQ(codeFor(archive, 8, 0), "eighty\n with a line");
  // Later ones of the same number run it, without what only the first has.
  EXPECT_EQ(codeFor(archive, 8, 9), "eighty\n with a line");
  EXPECT_EQ(codeFor(archive, 9, 0), std::string_view("with\0zero", 9));
  EXPECT_EQ(codeFor(archive, 10, 0), "hundred");
  EXPECT_EQ(codeFor(archive, 10, 3), "hundred");
  EXPECT_EQ(codeFor(archive, 7, 5), "");
  EXPECT_EQ(codeFor(archive, 12, 0), "");
}

} // namespace
} // namespace cleave::rt

// Segments are zero, aligned and apart; constants are what the image says.
#include "runtime/Exec/RankMemory.h"
#include "runtime/Exec/KernelTable.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace cleave::rt;

namespace {

TEST(RankMemory, SegmentsAreZeroAndAligned) {
  Program program;
  program.segments = {{"small", 100}, {"empty", 0}, {"large", (int64_t(9) << 20) + 52}};
  auto memory = RankMemory::allocate(program);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->totalBytes(), 100 + (int64_t(9) << 20) + 52);
  for (int32_t i = 0; i < 3; ++i) {
    std::byte *start = memory->address({i, 0, 0});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(start) % 64, 0u);
    for (int64_t b = 0; b < program.segments[i].bytes; ++b)
      ASSERT_EQ(start[b], std::byte{0});
    std::memset(start, 0xEE, program.segments[i].bytes);
  }
  EXPECT_EQ(memory->address({0, 99, 1})[0], std::byte{0xEE});
}

TEST(RankMemory, RefusesWhatTheSystemDoesNotHave) {
  Program program;
  program.segments = {{"arena", int64_t(1) << 60}};
  auto memory = RankMemory::allocate(program);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().kind, "runtime.out_of_memory");
  EXPECT_NE(memory.error().message.find("arena"), std::string::npos);
}

TEST(RankMemory, ConstantsAreWrittenForTheRank) {
  Program program;
  program.mesh.axes = {{"data", 2}, {"tensor", 3}};
  program.segments = {{"constants", 256}};
  program.constants = {
      {"f32", {0, 0, 8}, DataType::F32, Constant::Numbers{{0.1, -2.5}}},
      // 1 + 2^-8 is half way between two bf16 numbers and rounds to the even one.
      {"bf16", {0, 8, 4}, DataType::BF16, Constant::Numbers{{1.00390625, 1.01171875}}},
      {"bytes", {0, 16, 3}, DataType::I32, Constant::Bytes{"abc"}},
      {"iota", {0, 32, 16}, DataType::I32, Constant::Iota{5, -2}},
      {"start", {0, 64, 8}, DataType::I64, Constant::BlockStart{{1}, 84}}};
  auto memory = RankMemory::allocate(program);
  ASSERT_TRUE(memory.ok());
  fillConstants(program, 5, *memory);
  EXPECT_EQ(memory->floats({0, 0, 8})[0], 0.1f);
  EXPECT_EQ(memory->floats({0, 0, 8})[1], -2.5f);
  uint16_t half[2];
  std::memcpy(half, memory->address({0, 8, 4}), 4);
  EXPECT_EQ(half[0], 0x3F80);
  EXPECT_EQ(half[1], 0x3F82);
  EXPECT_EQ(std::memcmp(memory->address({0, 16, 3}), "abc", 3), 0);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(memory->ints({0, 32, 16})[i], 5 - 2 * i);
  int64_t start;
  std::memcpy(&start, memory->address({0, 64, 8}), 8);
  EXPECT_EQ(start, 2 * 84);
}

void kernelA(void *const *, int64_t, int64_t) {}

TEST(KernelTable, FindsByNameOrSaysWhichIsMissing) {
  const KernelSymbol symbols[] = {{"a", kernelA}};
  EXPECT_EQ(findKernel(symbols, "a").value(), kernelA);
  auto missing = findKernel(symbols, "b");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, "image.missing_kernel");
  EXPECT_NE(missing.error().message.find("\"b\""), std::string::npos);
}

} // namespace

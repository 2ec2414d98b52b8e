//===- ShimTest.cpp - the twins of a GPU's instructions -------------------===//
//
// What a warp does together, asynchronous copies, shared memory and the scheduler, each
// in a kernel of its own against plain loops; and what the shim must refuse.
//
//===----------------------------------------------------------------------===//

#include "ShimLibrary.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <set>

namespace cleave::test {

namespace {

constexpr const char *kText = R"(
extern "C" __global__ void matrices(const unsigned short *in, unsigned *out) {
  __shared__ __align__(16) unsigned short rows[32][8];
  for (int i = 0; i < 8; ++i)
    rows[threadIdx.x][i] = in[8 * threadIdx.x + i];
  __syncwarp();
  unsigned *own = out + 14 * threadIdx.x;
  loadMatrices<1>(own, rows[threadIdx.x % 8]);
  loadMatrices<2>(own + 1, rows[threadIdx.x % 16]);
  loadMatrices<4>(own + 3, rows[threadIdx.x]);
  loadMatricesTransposed<1>(own + 7, rows[threadIdx.x % 8]);
  loadMatricesTransposed<2>(own + 8, rows[threadIdx.x % 16]);
  loadMatricesTransposed<4>(own + 10, rows[threadIdx.x]);
}

// Registers as the PTX manual says which lane has which elements.
template <void (*multiply)(float *, const unsigned *, const unsigned *)>
__device__ void multiplyTiles(const unsigned short *a, const unsigned short *b, float *c) {
  const int group = threadIdx.x / 4, pair = threadIdx.x % 4 * 2;
  unsigned left[4], right[2];
  for (int i = 0; i < 4; ++i) {
    const unsigned short *at = a + (group + (i == 1 || i == 3 ? 8 : 0)) * 16 + pair + (i >= 2 ? 8 : 0);
    left[i] = at[0] | (unsigned)at[1] << 16;
  }
  for (int i = 0; i < 2; ++i) {
    const unsigned short *at = b + (pair + 8 * i) * 8 + group;
    right[i] = at[0] | (unsigned)at[8] << 16;
  }
  float sums[4];
  for (int i = 0; i < 4; ++i)
    sums[i] = c[(group + (i >= 2 ? 8 : 0)) * 8 + pair + i % 2];
  multiply(sums, left, right);
  for (int i = 0; i < 4; ++i)
    c[(group + (i >= 2 ? 8 : 0)) * 8 + pair + i % 2] = sums[i];
}
extern "C" __global__ void bf16_tiles(const unsigned short *a, const unsigned short *b, float *c) {
  multiplyTiles<multiplyBf16>(a, b, c);
}
extern "C" __global__ void half_tiles(const unsigned short *a, const unsigned short *b, float *c) {
  multiplyTiles<multiplyHalf>(a, b, c);
}

// What is there before a wait, with the last group outstanding, and at the end.
extern "C" __global__ void copies(const float *in, float *out) {
  __shared__ __align__(16) float first[4 * 32], second[4 * 32];
  copyAsync16(first + 4 * threadIdx.x, in + 4 * threadIdx.x);
  commitCopies();
  copyAsync16(second + 4 * threadIdx.x, in + 4 * threadIdx.x, 8);
  commitCopies();
  float *own = out + 6 * threadIdx.x;
  own[0] = first[4 * threadIdx.x];
  waitForCopies<1>();
  own[1] = first[4 * threadIdx.x + 3];
  own[2] = second[4 * threadIdx.x];
  waitForCopies<0>();
  own[3] = second[4 * threadIdx.x + 1];
  own[4] = second[4 * threadIdx.x + 2];
  // Those of others are seen behind a barrier.
  __syncthreads();
  own[5] = first[4 * ((threadIdx.x + 1) % 32)];
}

extern "C" __global__ void reversed(const float *in, float *out) {
  DYNAMIC_SHARED(memory);
  float *all = (float *)memory;
  all[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = all[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void unwritten(float *out) {
  DYNAMIC_SHARED(memory);
  out[threadIdx.x] = ((float *)memory)[threadIdx.x];
}

extern "C" __global__ void warp_words(const int *in, int *out, int *sum) {
  int mine = in[threadIdx.x];
  out[4 * threadIdx.x] = __shfl_sync(0xffffffffu, mine, 5);
  out[4 * threadIdx.x + 1] = (int)__ballot_sync(0xffffffffu, mine > 0);
  out[4 * threadIdx.x + 2] = __any_sync(0xffffffffu, mine > 1000);
  out[4 * threadIdx.x + 3] = __all_sync(0xffffffffu, mine > -1000);
  atomicAdd(sum, mine);
  atomicMax(sum + 1, mine);
}

extern "C" __global__ void turns(int *next, int *order) {
  if (threadIdx.x % 32 == 0)
    order[blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32] = atomicAdd(next, 1);
}

extern "C" __global__ void waits_in_part(int *out) {
  if (threadIdx.x < 16)
    __shfl_xor_sync(0xffffffffu, 1, 1);
  else
    __syncthreads();
  out[threadIdx.x] = 1;
}
extern "C" __global__ void parts_ways(int *out) {
  if (threadIdx.x < 16)
    __shfl_xor_sync(0xffffffffu, 1, 1);
  else
    __ballot_sync(0xffffffffu, 1);
  out[threadIdx.x] = 1;
}

extern "C" __global__ void reads_behind(const float *in, float *out) {
  out[threadIdx.x] = in[threadIdx.x + 1];
}
extern "C" __global__ void writes_before(float *out) { out[(int)threadIdx.x - 1] = 1; }
extern "C" __global__ void leaves_a_variable(float *out) {
  __shared__ float one[32], two[32];
  one[threadIdx.x] = two[threadIdx.x] = 0;
  __syncthreads();
  const float *next = one + 1, *other = two + 1;
  out[threadIdx.x] = next[threadIdx.x] + other[threadIdx.x];
}
extern "C" __global__ void leaves_dynamic(float *out) {
  DYNAMIC_SHARED(memory);
  ((float *)memory)[threadIdx.x] = 1;
  out[threadIdx.x] = 0;
}
extern "C" __global__ void copies_behind(const float *in) {
  __shared__ __align__(16) float all[4 * 32];
  copyAsync16(all + 4 * threadIdx.x, in + 4 * threadIdx.x);
  waitForCopies<0>();
}
extern "C" __global__ void copies_aslant(const float *in) {
  __shared__ __align__(16) float all[4 * 32];
  copyAsync16(all + 4 * threadIdx.x, in + 1);
}
extern "C" __global__ void matrix_from_global(const float *in, unsigned *out) {
  loadMatrices<1>(out + threadIdx.x, in);
}
)";

const std::vector<std::string> kKernels = {
    "matrices",          "bf16_tiles",        "half_tiles",    "copies",        "reversed",
    "unwritten",         "warp_words",        "turns",         "waits_in_part", "parts_ways",
    "reads_behind",      "writes_before",     "copies_behind", "copies_aslant", "leaves_dynamic",
    "leaves_a_variable", "matrix_from_global"};

class CudaShimWords : public testing::Test {
protected:
  static void SetUpTestSuite() { library = new ShimLibrary(kText, kKernels); }
  static void TearDownTestSuite() { delete library; }
  void SetUp() override { ASSERT_TRUE(library->ok()); }
  static std::string launch(const std::string &kernel, const std::vector<Given> &args,
                            const ShimLibrary::Grid &grid = {1, 32}) {
    return library->launch(kernel, args, grid);
  }
  static void expectError(const std::string &error, const std::string &part) {
    EXPECT_NE(error.find(part), std::string::npos) << "'" << error << "' lacks '" << part << "'";
  }
  static ShimLibrary *library;
};
ShimLibrary *CudaShimWords::library = nullptr;

/// Numbers that both types of two bytes have: quarters up to 8, with their bits.
struct Quarters {
  std::vector<double> values;
  std::vector<uint16_t> bf16, half;
  Quarters(size_t count, std::mt19937 &random) {
    for (size_t i = 0; i < count; ++i) {
      int quarters = int(random() % 65) - 32;
      values.push_back(quarters / 4.0);
      float single = quarters / 4.0f;
      uint32_t bits;
      std::memcpy(&bits, &single, sizeof bits);
      bf16.push_back(bits >> 16);
      // The same sign and fraction, of which ten bits are kept, and another bias.
      uint32_t exponent = bits >> 23 & 255;
      half.push_back(single == 0 ? 0
                                 : (bits >> 16 & 0x8000) | (exponent - 127 + 15) << 10 |
                                       (bits >> 13 & 1023));
    }
  }
};

} // namespace

TEST_F(CudaShimWords, LoadMatricesLikeThePtxManual) {
  std::vector<uint16_t> in(32 * 8);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = 1000 + i;
  std::vector<uint32_t> out(32 * 14);
  ASSERT_EQ(launch("matrices", {in, out}), "");
  auto element = [&](int matrix, int row, int column) {
    return in[(8 * matrix + row) * 8 + column];
  };
  for (int lane = 0; lane < 32; ++lane) {
    int at = 0;
    for (bool transposed : {false, true})
      for (int count : {1, 2, 4})
        for (int matrix = 0; matrix < count; ++matrix, ++at)
          for (int half = 0; half < 2; ++half) {
            int row = lane / 4, column = lane % 4 * 2 + half;
            EXPECT_EQ(out[14 * lane + at] >> 16 * half & 0xffff,
                      transposed ? element(matrix, column, row) : element(matrix, row, column))
                << "lane " << lane << ", register " << at;
          }
  }
}

TEST_F(CudaShimWords, MultiplyTilesOfBothTypes) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    Quarters a(16 * 16, random), b(16 * 8, random);
    std::vector<float> c(16 * 8);
    for (float &value : c)
      value = int(random() % 100);
    std::vector<float> of16 = c, ofHalf = c;
    ASSERT_EQ(launch("bf16_tiles", {a.bf16, b.bf16, of16}), "");
    ASSERT_EQ(launch("half_tiles", {a.half, b.half, ofHalf}), "");
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 8; ++j) {
        double sum = c[8 * i + j];
        for (int k = 0; k < 16; ++k)
          sum += a.values[16 * i + k] * b.values[8 * k + j];
        EXPECT_EQ(of16[8 * i + j], sum); // no sum of these is rounded
        EXPECT_EQ(ofHalf[8 * i + j], sum);
      }
  }
}

TEST_F(CudaShimWords, CopiesArriveWhenTheyAreWaitedFor) {
  std::vector<float> in(4 * 32), out(6 * 32);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = 1 + i;
  ASSERT_EQ(launch("copies", {in, out}), "");
  for (int i = 0; i < 32; ++i) {
    EXPECT_TRUE(std::isnan(out[6 * i]));
    EXPECT_EQ(out[6 * i + 1], in[4 * i + 3]);
    EXPECT_TRUE(std::isnan(out[6 * i + 2]));
    EXPECT_EQ(out[6 * i + 3], in[4 * i + 1]);
    EXPECT_EQ(out[6 * i + 4], 0); // more than was asked for
    EXPECT_EQ(out[6 * i + 5], in[4 * ((i + 1) % 32)]);
  }
}

TEST_F(CudaShimWords, DynamicSharedMemoryIsTheBlocks) {
  std::vector<float> in(96), out(96);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = i;
  for (unsigned seed : {1, 2, 3}) {
    ASSERT_EQ(launch("reversed", {in, out}, {2, 96, seed, 96 * 4}), "");
    EXPECT_TRUE(std::equal(in.rbegin(), in.rend(), out.begin()));
  }
  ASSERT_EQ(launch("unwritten", {out}, {1, 96, 1, 96 * 4}), "");
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float x) { return std::isnan(x); }));
  expectError(launch("reversed", {in, out}, {1, 96, 1, 64 * 4}),
              "dynamic shared memory (256 bytes)");
}

TEST_F(CudaShimWords, WarpsVoteAndShuffle) {
  std::mt19937 random(1);
  std::vector<int> in(32), out(4 * 32), sums = {0, -5};
  unsigned positive = 0;
  int sum = 0;
  for (int i = 0; i < 32; ++i) {
    in[i] = int(random() % 201) - 100;
    positive |= unsigned(in[i] > 0) << i;
    sum += in[i];
  }
  ASSERT_EQ(launch("warp_words", {in, out, sums}), "");
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(out[4 * i], in[5]);
    EXPECT_EQ(unsigned(out[4 * i + 1]), positive);
    EXPECT_EQ(out[4 * i + 2], 0);
    EXPECT_EQ(out[4 * i + 3], 1);
  }
  EXPECT_EQ(sums[0], sum);
  EXPECT_EQ(sums[1], *std::max_element(in.begin(), in.end()));
}

TEST_F(CudaShimWords, ASeedChoosesTheOrderOfWarpsAndBlocks) {
  auto orderOf = [&](unsigned seed) {
    std::vector<int> next = {0}, order(4 * 8, -1);
    EXPECT_EQ(launch("turns", {next, order}, {4, 8 * 32, seed}), "");
    EXPECT_EQ(next[0], 32);
    return order;
  };
  std::set<std::vector<int>> orders;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    orders.insert(orderOf(seed));
    EXPECT_EQ(orderOf(seed), orderOf(seed));
  }
  EXPECT_EQ(orders.size(), 20u);
}

TEST_F(CudaShimWords, ThreadsOfAWarpThatPartAreRefused) {
  std::vector<int> out(32);
  expectError(launch("waits_in_part", {out}), "deadlock");
  expectError(launch("parts_ways", {out}), "another one at");
  EXPECT_EQ(launch("turns", {out, out}), ""); // and the next launch runs
}

TEST_F(CudaShimWords, MemoryThatWasNotGivenIsRefused) {
  std::vector<float> in(32 + 8), out(32 + 8);
  std::vector<unsigned> words(32);
  Given few(in.data(), 128), place(out.data() + 4, 128);
  expectError(launch("reads_behind", {few, out}),
              "thread 31 reads 4 bytes at 128 of argument 0 (128 bytes)");
  expectError(launch("writes_before", {place}),
              "thread 0 writes 4 bytes at 4 before argument 0 (128 bytes)");
  expectError(launch("leaves_dynamic", {out}, {1, 32, 1, 64}),
              "of dynamic shared memory (64 bytes)");
  expectError(launch("copies_behind", {few}), "of argument 0 (128 bytes)");
  expectError(launch("copies_aslant", {few}), "not aligned");
  expectError(launch("matrix_from_global", {few, words}), "which is not shared memory");
#ifdef CLEAVE_TEST_VARIABLES_APART
  expectError(launch("leaves_a_variable", {out}), "reads 4 bytes at 128 of ");
#endif
  EXPECT_EQ(launch("reads_behind", {in, Given(out.data(), 128)}), "");
}

} // namespace cleave::test

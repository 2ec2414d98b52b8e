//===- ProductText.cpp - matrix products as CUDA text ---------------------===//

#include "ProductText.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;

namespace cleave::cuda {

namespace {
/// How a tile of the result is cut over the threads of a block.
struct Tile {
  int64_t m, n, k;
  int64_t warpsM, warpsN;
  unsigned threads() const { return 32 * warpsM * warpsN; }
};
} // namespace

/// Of bf16 a warp has 64 × 32 sums of a large tile, of f32 a thread 8 × 8: what leaves registers
/// for operands. Two tiles of each operand take 40 KiB of the 48 that a block has without asking.
static constexpr Tile kLargeNarrow{128, 128, 32, 2, 4}, kSmallNarrow{64, 64, 32, 2, 2};
static constexpr Tile kLargeWide{128, 128, 16, 2, 4}, kSmallWide{64, 64, 16, 2, 4};

/// Blocks below which small tiles fill a device better: its multiprocessors (H100 SXM).
static constexpr int64_t kMultiprocessors = 132;
/// The most blocks of a grid in one dimension (CUDA C++ Programming Guide, compute capabilities).
static constexpr int64_t kMostBlocks = std::numeric_limits<int32_t>::max();

static int64_t blocksOf(const Tile &tile, int64_t m, int64_t n, int64_t batch) {
  return llvm::divideCeil(m, tile.m) * llvm::divideCeil(n, tile.n) * batch;
}

/// Whether 16 bytes can be copied at a time: elements lie side by side along one direction, and
/// all lines of all matrices begin at multiples of 16 bytes.
static bool isWhole(exec::AtAttr at, ArrayRef<int64_t> strides, ArrayRef<int64_t> batchStrides,
                    int64_t elementBytes) {
  const int64_t elements = 16 / elementBytes;
  auto aligned = [&](int64_t stride) { return stride % elements == 0; };
  bool lines = (strides[1] == 1 && aligned(strides[0])) || (strides[0] == 1 && aligned(strides[1]));
  return lines && llvm::all_of(batchStrides, aligned) && at.getOffset() % 16 == 0 &&
         at.getStep() % 16 == 0;
}

/// The statements that move the pointers to those of matrix `batch`.
static std::string chooseText(ArrayRef<int64_t> batch) {
  static constexpr const char *kPointers[] = {"a", "b", "c"};
  std::string text;
  int64_t inner = 1;
  for (size_t i = batch.size(); i > 0; i -= 4) {
    ArrayRef<int64_t> dim = batch.slice(i - 4, 4);
    std::string at = inner == 1 ? "batch" : "batch / " + std::to_string(inner);
    if (i > 4)
      at = "(" + at + ") % " + std::to_string(dim[0]);
    for (auto [pointer, stride] : llvm::zip_equal(ArrayRef(kPointers), dim.drop_front()))
      if (stride != 0)
        text += llvm::formatv("    {0} += {1} * {2}ll;\n", pointer, at, stride).str();
    inner *= dim[0];
  }
  return text;
}

std::optional<ProductText> textOf(exec::MatmulOp op) {
  const int64_t m = op.getSizes()[0], n = op.getSizes()[1], k = op.getSizes()[2];
  if (m == 0 || n == 0 || k == 0)
    return std::nullopt;
  ArrayRef<int64_t> batch = op.getBatch(), a = op.getAStrides(), b = op.getBStrides();
  SmallVector<int64_t> batchA, batchB;
  int64_t matrices = 1;
  for (size_t i = 0; i < batch.size(); i += 4) {
    matrices *= batch[i];
    batchA.push_back(batch[i + 1]);
    batchB.push_back(batch[i + 2]);
  }
  const bool narrow = op.getOperandType().isBF16();
  Tile tile = narrow ? kLargeNarrow : kLargeWide;
  if (blocksOf(tile, m, n, matrices) < kMultiprocessors)
    tile = narrow ? kSmallNarrow : kSmallWide;
  ProductText result;
  result.blocks = blocksOf(tile, m, n, matrices);
  result.threads = tile.threads();
  if (result.blocks > kMostBlocks || std::max({m, n, k}) > kMostBlocks - 128)
    return std::nullopt;
  const char *operand = narrow ? "bf16" : "float";
  const char *output = op.getResultType().isBF16() ? "bf16" : "float";
  std::string constants =
      llvm::formatv("  static constexpr int m = {0}, n = {1}, k = {2};\n", m, n, k).str() +
      llvm::formatv("  static constexpr long long aRow = {0}, aColumn = {1}, bRow = {2}, bColumn = "
                    "{3}, cRow = {4},\n                             cColumn = {5};\n",
                    a[0], a[1], b[0], b[1], op.getCStrides()[0], op.getCStrides()[1])
          .str() +
      llvm::formatv("  static constexpr bool aWhole = {0}, bWhole = {1}, add = {2};\n",
                    isWhole(op.getA(), a, batchA, narrow ? 2 : 4),
                    isWhole(op.getB(), b, batchB, narrow ? 2 : 4), op.getAccumulate())
          .str() +
      llvm::formatv("  static constexpr int tileM = {0}, tileN = {1}, tileK = {2}, warpsM = {3}, "
                    "warpsN = {4}, threads = {5};\n",
                    tile.m, tile.n, tile.k, tile.warpsM, tile.warpsN, tile.threads())
          .str();
  result.text =
      llvm::formatv("struct $name_problem {{\n  typedef {0} Operand;\n  typedef {1} Result;\n{2}"
                    "  static __device__ __forceinline__ void choose(int batch, const {0} *&a, "
                    "const {0} *&b, {1} *&c) {{\n{3}  }\n};\n",
                    operand, output, constants, chooseText(batch))
          .str() +
      llvm::formatv("extern \"C\" __global__ void __launch_bounds__({0}) $name(const {1} "
                    "*__restrict__ in0, const {1} *__restrict__ in1, {2} *__restrict__ out0) {{\n"
                    "  __shared__ __align__(128) {1} tiles[2 * "
                    "ProductTiles<$name_problem>::stage];\n"
                    "  multiplyMatrices<$name_problem>(in0, in1, out0, tiles);\n}\n",
                    result.threads, operand, output)
          .str();
  return result;
}

} // namespace cleave::cuda

// Rows sorted by matrix, gathered, multiplied and put back.
#include "runtime/Device/CPU/PickedMatmul.h"

#include "runtime/Device/CPU/Tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

namespace cleave::rt {
namespace {

constexpr int64_t fullBlock = pickedBlockRows.back();
/// Columns of a tile, and rows of one of an outer product.
constexpr int64_t tileWidth = 384;

/// The smallest block that holds `rows`.
size_t blockFor(int64_t rows) {
  return std::ranges::find_if(pickedBlockRows, [&](int64_t n) { return n >= rows; }) -
         pickedBlockRows.begin();
}

int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The size of a tile of `size`; the last one may be smaller.
int64_t tileOf(int64_t size) {
  const int64_t even = ceilDivide(size, ceilDivide(size, tileWidth));
  return std::min(size, ceilDivide(even, 16) * 16);
}

/// Of a tile that is, or is not, the last.
int64_t sizeOf(int64_t size, int64_t tile, bool last) {
  return last ? size - (ceilDivide(size, tile) - 1) * tile : tile;
}

/// Elements of a or b, of `bytes` each.
struct Elements {
  const std::byte *first;
  int64_t bytes;
  Elements(const void *data, bool narrow)
      : first(static_cast<const std::byte *>(data)), bytes(narrow ? 2 : 4) {}
  const std::byte *at(int64_t element) const { return first + element * bytes; }
};

/// Copies `width` elements of each row from column `column` on, and zeros behind them up to
/// `padded` rows. Returns where the next thing may lie.
std::byte *gather(const Elements &from, int64_t rowWidth, int64_t column, int64_t width,
                  const int32_t *rows, int64_t count, int64_t share, int64_t padded,
                  std::byte *to) {
  const int64_t bytes = width * from.bytes;
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * bytes, from.at(rows[i] / share * rowWidth + column),
                static_cast<size_t>(bytes));
  std::memset(to + count * bytes, 0, static_cast<size_t>((padded - count) * bytes));
  return to + padded * bytes;
}

} // namespace

Status PickedMatmulEngine::grow(int64_t rows, int64_t matrices, int64_t floatsOfWorker) {
  try {
    order.resize(std::max<size_t>(order.size(), rows));
    starts.resize(std::max<size_t>(starts.size(), matrices + 2));
    blocks.reserve(std::max<size_t>(blocks.capacity(), rows / fullBlock + matrices + 2));
    memory.resize(pool.size());
    for (std::vector<float> &own : memory)
      own.resize(std::max<size_t>(own.size(), floatsOfWorker));
  } catch (const std::bad_alloc &) {
    return runError("device.out_of_memory",
                    fmt::format("no memory to sort {} rows by {} matrices", rows, matrices));
  }
  return {};
}

StatusOr<PickedMatmulPlan> PickedMatmulEngine::prepare(const PickedMatmulProblem &problem) {
  PickedMatmulPlan plan;
  plan.problem = problem;
  plan.tileN = tileOf(problem.n);
  for (size_t i = 0; i < pickedBlockRows.size(); ++i)
    for (int last = 0; last < 2; ++last) {
      const int64_t columns = sizeOf(problem.n, plan.tileN, last != 0);
      const TileKey key{pickedBlockRows[i], columns,      problem.k, {problem.k, 1},
                        problem.b,          {columns, 1}, false,     {problem.narrow, false}};
      CLEAVE_RT_ASSIGN_OR_RETURN(plan.tiles[i][last], tiles.prepareTile(key));
    }
  CLEAVE_RT_RETURN_IF_ERROR(
      grow(problem.rows, problem.matrices, fullBlock * (problem.k + plan.tileN)));
  return plan;
}

StatusOr<PickedOuterPlan> PickedMatmulEngine::prepare(const PickedOuterProblem &problem) {
  PickedOuterPlan plan;
  plan.problem = problem;
  plan.tileM = tileOf(problem.m);
  plan.tileN = tileOf(problem.n);
  for (size_t i = 0; i < pickedBlockRows.size(); ++i)
    for (int lastM = 0; lastM < 2; ++lastM)
      for (int lastN = 0; lastN < 2; ++lastN)
        for (int adds = 0; adds < 2; ++adds) {
          const int64_t m = sizeOf(problem.m, plan.tileM, lastM != 0),
                        n = sizeOf(problem.n, plan.tileN, lastN != 0);
          const TileKey key{m,
                            n,
                            pickedBlockRows[i],
                            {1, m},
                            {n, 1},
                            {problem.n, 1},
                            adds != 0,
                            {problem.narrow, false}};
          CLEAVE_RT_ASSIGN_OR_RETURN(plan.tiles[i][lastM][lastN][adds], tiles.prepareTile(key));
        }
  CLEAVE_RT_RETURN_IF_ERROR(
      grow(problem.rows, problem.matrices, fullBlock * (plan.tileM + plan.tileN)));
  return plan;
}

/// By counting: rows of one matrix stay in their order.
void PickedMatmulEngine::sort(int64_t rows, int64_t matrices, const int32_t *index,
                              const int32_t *offset) {
  const int64_t begin = offset ? *offset : 0;
  auto matrixOf = [&](int64_t row) {
    const int64_t e = index[row] - begin;
    return e >= 0 && e < matrices ? e : matrices;
  };
  std::fill(starts.begin(), starts.begin() + matrices + 2, 0);
  for (int64_t row = 0; row < rows; ++row)
    ++starts[matrixOf(row) + 1];
  for (int64_t e = 0; e <= matrices; ++e)
    starts[e + 1] += starts[e];
  // Filling moves each start to where the next one was.
  for (int64_t row = 0; row < rows; ++row)
    order[starts[matrixOf(row)]++] = static_cast<int32_t>(row);
  for (int64_t e = matrices + 1; e > 0; --e)
    starts[e] = starts[e - 1];
  starts[0] = 0;
}

void PickedMatmulEngine::cutBlocks(int64_t matrices) {
  blocks.clear();
  for (int64_t e = 0; e <= matrices; ++e)
    for (int64_t first = starts[e]; first < starts[e + 1]; first += fullBlock)
      blocks.push_back({e, first, std::min(fullBlock, starts[e + 1] - first)});
}

void PickedMatmulEngine::matmulBlock(const PickedMatmulPlan &plan, const Block &block,
                                     int64_t column, unsigned worker, const void *a, const void *b,
                                     float *c) {
  const PickedMatmulProblem &problem = plan.problem;
  const int64_t first = column * plan.tileN, columns = std::min(plan.tileN, problem.n - first);
  const int32_t *rows = order.data() + block.first;
  float *to = c + first;
  if (block.matrix == problem.matrices) { // none
    for (int64_t i = 0; i < block.count; ++i)
      std::fill_n(to + rows[i] * problem.n, columns, 0.0f);
    return;
  }
  const size_t size = blockFor(block.count);
  const int64_t padded = pickedBlockRows[size];
  auto *input = reinterpret_cast<std::byte *>(memory[worker].data());
  std::byte *output = gather({a, problem.narrow}, problem.k, 0, problem.k, rows, block.count,
                             problem.share, padded, input);
  const Elements matrices(b, problem.narrow);
  tiles.runTile(*plan.tiles[size][first + columns == problem.n], worker, input,
                matrices.at(block.matrix * problem.strideB + first * problem.b.column), output);
  const int64_t bytes = columns * static_cast<int64_t>(sizeof(float));
  for (int64_t i = 0; i < block.count; ++i)
    std::memcpy(to + rows[i] * problem.n, output + i * bytes, static_cast<size_t>(bytes));
}

Status PickedMatmulEngine::run(const PickedMatmulPlan &plan, const void *a, const void *b,
                               const int32_t *index, const int32_t *offset, float *c) {
  const PickedMatmulProblem &problem = plan.problem;
  sort(problem.rows, problem.matrices, index, offset);
  cutBlocks(problem.matrices);
  const int64_t columns = ceilDivide(problem.n, plan.tileN);
  return runTasks(pool, static_cast<int64_t>(blocks.size()) * columns,
                  [&](int64_t task, unsigned worker) {
                    matmulBlock(plan, blocks[task / columns], task % columns, worker, a, b, c);
                  });
}

/// Tile `task` of all matrices: the sum over the matrix's rows, block by block.
void PickedMatmulEngine::outerTile(const PickedOuterPlan &plan, int64_t task, unsigned worker,
                                   const void *a, const void *b, float *c) {
  const PickedOuterProblem &problem = plan.problem;
  const int64_t tilesM = ceilDivide(problem.m, plan.tileM),
                tilesN = ceilDivide(problem.n, plan.tileN);
  const int64_t e = task / (tilesM * tilesN), firstM = task / tilesN % tilesM * plan.tileM,
                firstN = task % tilesN * plan.tileN;
  const int64_t m = std::min(plan.tileM, problem.m - firstM),
                n = std::min(plan.tileN, problem.n - firstN);
  const bool lastM = firstM + m == problem.m, lastN = firstN + n == problem.n;
  float *to = c + (e * problem.m + firstM) * problem.n + firstN;
  bool adds = problem.accumulate;
  for (int64_t first = starts[e]; first < starts[e + 1]; first += fullBlock, adds = true) {
    const int64_t count = std::min(fullBlock, starts[e + 1] - first);
    const size_t size = blockFor(count);
    const int64_t padded = pickedBlockRows[size];
    auto *left = reinterpret_cast<std::byte *>(memory[worker].data());
    const int32_t *rows = order.data() + first;
    std::byte *right = gather({a, problem.narrow}, problem.m, firstM, m, rows, count,
                              problem.shareA, padded, left);
    gather({b, problem.narrow}, problem.n, firstN, n, rows, count, problem.shareB, padded, right);
    tiles.runTile(*plan.tiles[size][lastM][lastN][adds], worker, left, right, to);
  }
  for (int64_t i = 0; i < m && !adds; ++i)
    std::fill_n(to + i * problem.n, n, 0.0f);
}

Status PickedMatmulEngine::run(const PickedOuterPlan &plan, const void *a, const void *b,
                               const int32_t *index, const int32_t *offset, float *c) {
  const PickedOuterProblem &problem = plan.problem;
  sort(problem.rows, problem.matrices, index, offset);
  const int64_t tasks =
      problem.matrices * ceilDivide(problem.m, plan.tileM) * ceilDivide(problem.n, plan.tileN);
  return runTasks(pool, tasks,
                  [&](int64_t task, unsigned worker) { outerTile(plan, task, worker, a, b, c); });
}

int64_t PickedMatmulEngine::scratchBytes() const {
  size_t bytes = order.size() * sizeof(int32_t) + starts.size() * sizeof(int64_t) +
                 blocks.capacity() * sizeof(Block);
  for (const std::vector<float> &own : memory)
    bytes += own.size() * sizeof(float);
  return static_cast<int64_t>(bytes);
}

} // namespace cleave::rt

// Products of rows with the matrix that an index picks for each: the experts of a
// layer. Rows are sorted by matrix, gathered into dense blocks of a worker's own
// memory, multiplied by a MatmulEngine's tiles and put back where they belong.
//
// How many rows a matrix gets is known only when it runs. Blocks are cut from the
// counts alone and each sums in one order, so results are the same for any number
// of workers. A block that is not full is padded, so that a few tiles do for all
// counts. Nothing can overflow: memory is bounded by the number of rows, however
// they are spread.
#pragma once

#include "runtime/Device/CPU/Matmul.h"

#include <array>

namespace cleave::rt {

/// c[r] = a[r / share] · b[index[r] − offset]: rows of n, of k, matrices of k × n.
struct PickedMatmulProblem {
  int64_t rows = 1, n = 1, k = 1, matrices = 1;
  int64_t share = 1;
  /// From matrix to matrix of b, and inside of one.
  int64_t strideB = 1;
  MatrixStrides b;
  /// a and b are bf16; c and the sums are f32.
  bool narrow = false;
};

/// c[e] (+)= Σ a[r / shareA]ᵀ · b[r / shareB] over index[r] − offset = e: m × n each.
struct PickedOuterProblem {
  int64_t rows = 1, m = 1, n = 1, matrices = 1;
  int64_t shareA = 1, shareB = 1;
  bool accumulate = false;
  bool narrow = false;
};

/// Rows of the blocks for which tiles are compiled.
inline constexpr std::array<int64_t, 3> pickedBlockRows = {8, 24, 64};

/// A problem with its tiles, by rows of a block and whether it is the last along n.
struct PickedMatmulPlan {
  PickedMatmulProblem problem;
  int64_t tileN = 1;
  std::array<std::array<const MatmulTile *, 2>, pickedBlockRows.size()> tiles = {};
};

/// The same, by rows, whether it is the last along m, along n, and whether it adds.
struct PickedOuterPlan {
  PickedOuterProblem problem;
  int64_t tileM = 1, tileN = 1;
  std::array<std::array<std::array<std::array<const MatmulTile *, 2>, 2>, 2>,
             pickedBlockRows.size()>
      tiles = {};
};

class PickedMatmulEngine {
public:
  /// Both must outlive it; see MatmulEngine for who may call.
  PickedMatmulEngine(ThreadPool &pool, MatmulEngine &tiles) : pool(pool), tiles(tiles) {}

  /// Compiles tiles and grows memory. Errors: `device.matmul_refused`, `device.out_of_memory`.
  StatusOr<PickedMatmulPlan> prepare(const PickedMatmulProblem &problem);
  StatusOr<PickedOuterPlan> prepare(const PickedOuterProblem &problem);

  /// Rows whose index picks no matrix become zeros, or add nothing. `offset` may be null:
  /// 0. c overlaps nothing else.
  Status run(const PickedMatmulPlan &plan, const void *a, const void *b, const int32_t *index,
             const int32_t *offset, float *c);
  Status run(const PickedOuterPlan &plan, const void *a, const void *b, const int32_t *index,
             const int32_t *offset, float *c);

  /// Bytes of memory for sorted rows and blocks.
  int64_t scratchBytes() const;

private:
  /// Rows of one matrix that are computed together.
  struct Block {
    int64_t matrix, first, count;
  };

  Status grow(int64_t rows, int64_t matrices, int64_t floatsOfWorker);
  void sort(int64_t rows, int64_t matrices, const int32_t *index, const int32_t *offset);
  void cutBlocks(int64_t matrices);
  void matmulBlock(const PickedMatmulPlan &plan, const Block &block, int64_t column,
                   unsigned worker, const void *a, const void *b, float *c);
  void outerTile(const PickedOuterPlan &plan, int64_t task, unsigned worker, const void *a,
                 const void *b, float *c);

  ThreadPool &pool;
  MatmulEngine &tiles;
  /// Rows by matrix, those without one last; where each matrix's begin.
  std::vector<int32_t> order;
  std::vector<int64_t> starts;
  std::vector<Block> blocks;
  /// Of each worker.
  std::vector<std::vector<float>> memory;
};

} // namespace cleave::rt

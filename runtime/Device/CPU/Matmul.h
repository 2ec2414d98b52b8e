// Matrix products of f32 or bf16 on the CPU: oneDNN, called single-threaded on tiles by
// the rank's own pool.
//
// Why not oneDNN's own threads: Debian's library carries libgomp, and a second
// pool beside ours would spin against it. Every call therefore runs with OpenMP
// told (for the calling thread only) to use one thread, so that no other thread
// is ever started. Why our own tiles: they depend on the sizes alone and never
// cut k, so a product is bitwise the same for any number of workers; and small
// products stay whole, since splitting costs more than it wins.
//
// Compiled primitives are kept by one `MatmulEngine`, that is by one executor;
// scratch memory is ours, one piece a worker, and counted.
#pragma once

#include "runtime/Base/Status.h"
#include "runtime/Base/ThreadPool.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace cleave::rt {

/// Distances between neighbouring rows and columns, in elements. One must be 1
/// where the matrix is larger than 1 in that direction, and the other at least
/// the size of the contiguous direction.
struct MatrixStrides {
  int64_t row = 1;
  int64_t column = 1;
  bool operator==(const MatrixStrides &) const = default;
};

/// Which elements are bf16, the others being f32. Sums are in f32. A narrow result needs
/// narrow operands and adds to nothing.
struct ProductTypes {
  bool narrowOperands = false;
  bool narrowResult = false;
  int64_t operandBytes() const { return narrowOperands ? 2 : 4; }
  int64_t resultBytes() const { return narrowResult ? 2 : 4; }
  bool operator==(const ProductTypes &) const = default;
};

/// One dimension of a batch of products and the distances between neighbours.
struct MatmulBatch {
  int64_t count = 1;
  int64_t strideA = 0;
  int64_t strideB = 0;
  int64_t strideC = 0;
  bool operator==(const MatmulBatch &) const = default;
};

/// c[m × n] (+)= a[m × k] · b[k × n] for each index of the batch.
struct MatmulProblem {
  int64_t m = 1, n = 1, k = 1;
  MatrixStrides a, b, c;
  std::vector<MatmulBatch> batch;
  bool accumulate = false;
  ProductTypes types = {};
  bool operator==(const MatmulProblem &) const = default;
};

/// A product prepared for one MatmulEngine, which owns it.
class MatmulPlan;
/// A product of fixed sizes and strides that one call of the library computes.
class MatmulTile;

/// What distinguishes one tile from another.
struct TileKey {
  int64_t m = 1, n = 1, k = 1;
  MatrixStrides a, b, c;
  bool accumulate = false;
  ProductTypes types = {};
};

class MatmulEngine {
public:
  /// `pool` must outlive the engine and be used by the thread that calls `run`.
  explicit MatmulEngine(ThreadPool &pool);
  MatmulEngine(const MatmulEngine &) = delete;
  MatmulEngine &operator=(const MatmulEngine &) = delete;
  ~MatmulEngine();

  /// Compiles what the product needs, or finds it from before. The plan lives as
  /// long as the engine. `device.matmul_refused` if the strides are not as stated
  /// or oneDNN refuses (naming sizes and its reason).
  StatusOr<const MatmulPlan *> prepare(const MatmulProblem &problem);

  /// c must not overlap a or b. With k = 0 the sum is empty: zero, or unchanged
  /// with `accumulate`.
  Status run(const MatmulPlan &plan, const void *a, const void *b, void *c);

  /// A tile for others who cut products into tasks themselves. Lives as long as the
  /// engine; errors are those of `prepare`.
  StatusOr<const MatmulTile *> prepareTile(const TileKey &key);
  /// Computes a tile, as `worker` of the pool and in a task of it.
  void runTile(const MatmulTile &tile, unsigned worker, const void *a, const void *b,
               void *c) const;

  /// Bytes of scratch memory of all workers.
  int64_t scratchBytes() const;
  /// Number of different tile primitives compiled.
  size_t primitiveCount() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace cleave::rt

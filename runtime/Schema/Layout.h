// Where a rank stands in the mesh and which block of a global tensor it holds:
// the arithmetic that compiler and runtime must agree on, so it exists once.
//
// The mesh is a list of named axes; ranks count row-major over them, so with
// axes data=2, tensor=4 rank 5 has coordinates (1, 1). A dimension of n elements
// cut by axes of sizes a1, a2 … (major to minor) has k = a1·a2·… blocks of
// ceil(n / k); the block's number is the row-major index of the rank's
// coordinates on those axes. The last blocks may be short or empty; in memory
// every block has ceil(n / k) elements, the missing ones zero. Example: n = 10
// on one axis of 4 gives blocks of 3: [0,3) [3,6) [6,9) [9,10).
//
// This knows nothing of memory, files or communication.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cleave::rt {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
};

/// Indices into a mesh's axes, major to minor.
using AxisList = std::vector<int32_t>;

struct Mesh {
  std::vector<MeshAxis> axes;

  /// Number of ranks: the product of the axes' sizes.
  int64_t world() const;
  /// One coordinate for each axis.
  std::vector<int64_t> coordinates(int64_t rank) const;
  /// Product of the sizes of `list`; 1 for an empty one.
  int64_t sizeOf(std::span<const int32_t> list) const;
  /// The rank's row-major index over `list`, in [0, sizeOf(list)).
  int64_t indexOf(int64_t rank, std::span<const int32_t> list) const;
  /// The ranks that share all coordinates outside `list` with `rank`, in the
  /// order of their index over `list`.
  std::vector<int64_t> groupOf(int64_t rank, std::span<const int32_t> list) const;
};

/// A half-open range of a dimension.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range &) const = default;
};

/// ceil(n / k).
int64_t blockSize(int64_t n, int64_t k);

/// The real elements of block `index` of `n` cut into `k`; empty past the end.
Range blockRange(int64_t n, int64_t k, int64_t index);

/// Number of elements of a shape; 1 for a scalar.
int64_t elementCount(std::span<const int64_t> shape);

/// A global tensor cut over the mesh: for each dimension the axes that cut it.
/// No axis may cut two dimensions.
struct Sharding {
  std::vector<AxisList> axes;

  /// The padded shape of every rank's block.
  std::vector<int64_t> localShape(const Mesh &mesh, std::span<const int64_t> shape) const;
  /// The real elements that `rank` holds, one range for each dimension.
  std::vector<Range> block(const Mesh &mesh, std::span<const int64_t> shape, int64_t rank) const;
  /// True for exactly one rank of each set of ranks that hold the same block:
  /// the one whose coordinates on all axes not used here are 0. `apart`: axes over
  /// which ranks hold other tensors altogether; coordinates on these don't count.
  bool isPrimaryReplica(const Mesh &mesh, int64_t rank, std::span<const int32_t> apart = {}) const;
};

} // namespace cleave::rt

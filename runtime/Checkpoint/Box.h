// Axis-aligned pieces of row-major tensors: the coordinates in which state is
// saved and read, whatever layout wrote it. A box is an offset and an extent
// per dimension; a tensor without dimensions has one element.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::rt {

using Shape = std::vector<int64_t>;

/// Elements of a shape; nothing if a size is negative or the product overflows.
std::optional<uint64_t> volumeOf(const Shape &shape);

/// Strides in elements of a row-major tensor.
std::vector<int64_t> rowMajorStrides(const Shape &shape);

struct Box {
  std::vector<int64_t> offset;
  std::vector<int64_t> extent;

  static Box whole(const Shape &shape) { return {std::vector<int64_t>(shape.size(), 0), shape}; }
  /// Same number of dimensions, no negative size, nothing outside `shape`.
  bool isInside(const Shape &shape) const;
  bool empty() const;
  uint64_t volume() const;
  /// "[0:128, 64:128]"
  std::string toString() const;
  bool operator==(const Box &other) const = default;
};

/// The common part, or nothing if it has no element.
std::optional<Box> intersection(const Box &a, const Box &b);

/// Boxes, in order, whose elements are elements [begin, end) of the row-major
/// tensor: how a flat shard is said in coordinates. At most 2·rank - 1 of them.
std::vector<Box> boxesOfFlatRange(const Shape &shape, uint64_t begin, uint64_t end);

/// Calls `copyRun(from, to, count)` for each contiguous run of `region`, with
/// element offsets from the start of the source and target storage. Source and
/// target hold the boxes `source` and `target` of one tensor with the strides
/// given (in elements; the innermost is 1); `region` lies in both.
template <typename CopyRun>
void forEachRun(const Box &region, const Box &source, const std::vector<int64_t> &sourceStrides,
                const Box &target, const std::vector<int64_t> &targetStrides, CopyRun copyRun) {
  const size_t rank = region.offset.size();
  if (region.empty())
    return;
  int64_t from = 0, to = 0;
  for (size_t d = 0; d < rank; ++d) {
    from += (region.offset[d] - source.offset[d]) * sourceStrides[d];
    to += (region.offset[d] - target.offset[d]) * targetStrides[d];
  }
  if (rank == 0) {
    copyRun(from, to, int64_t{1});
    return;
  }
  std::vector<int64_t> index(rank, 0);
  while (true) {
    copyRun(from, to, region.extent[rank - 1]);
    // Counts up over all dimensions but the last, moving both offsets along.
    size_t d = rank - 1;
    while (d > 0) {
      --d;
      from += sourceStrides[d];
      to += targetStrides[d];
      if (++index[d] < region.extent[d])
        break;
      from -= region.extent[d] * sourceStrides[d];
      to -= region.extent[d] * targetStrides[d];
      index[d] = 0;
      if (d == 0)
        return;
    }
    if (rank == 1)
      return;
  }
}

} // namespace cleave::rt

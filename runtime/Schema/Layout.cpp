// Mesh coordinates and blocks of tensors.
#include "runtime/Schema/Layout.h"

#include <algorithm>
#include <cassert>

namespace cleave::rt {

int64_t Mesh::world() const {
  int64_t ranks = 1;
  for (const MeshAxis &axis : axes)
    ranks *= axis.size;
  return ranks;
}

std::vector<int64_t> Mesh::coordinates(int64_t rank) const {
  std::vector<int64_t> result(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    result[i] = rank % axes[i].size;
    rank /= axes[i].size;
  }
  return result;
}

int64_t Mesh::sizeOf(std::span<const int32_t> list) const {
  int64_t size = 1;
  for (int32_t axis : list)
    size *= axes[axis].size;
  return size;
}

int64_t Mesh::indexOf(int64_t rank, std::span<const int32_t> list) const {
  const std::vector<int64_t> at = coordinates(rank);
  int64_t index = 0;
  for (int32_t axis : list)
    index = index * axes[axis].size + at[axis];
  return index;
}

std::vector<int64_t> Mesh::groupOf(int64_t rank, std::span<const int32_t> list) const {
  std::vector<int64_t> stride(axes.size(), 1);
  for (size_t i = axes.size(); i-- > 1;)
    stride[i - 1] = stride[i] * axes[i].size;
  const std::vector<int64_t> at = coordinates(rank);
  int64_t base = rank;
  for (int32_t axis : list)
    base -= at[axis] * stride[axis];
  const int64_t count = sizeOf(list);
  std::vector<int64_t> ranks(count);
  for (int64_t index = 0; index < count; ++index) {
    int64_t rest = index, member = base;
    for (size_t i = list.size(); i-- > 0;) {
      member += rest % axes[list[i]].size * stride[list[i]];
      rest /= axes[list[i]].size;
    }
    ranks[index] = member;
  }
  return ranks;
}

int64_t blockSize(int64_t n, int64_t k) { return n / k + (n % k != 0); }

Range blockRange(int64_t n, int64_t k, int64_t index) {
  const int64_t size = blockSize(n, k);
  return {std::min(n, index * size), std::min(n, (index + 1) * size)};
}

int64_t elementCount(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (int64_t n : shape)
    count *= n;
  return count;
}

std::vector<int64_t> Sharding::localShape(const Mesh &mesh, std::span<const int64_t> shape) const {
  assert(axes.size() == shape.size() && "a list of axes for each dimension");
  std::vector<int64_t> local(shape.size());
  for (size_t d = 0; d < shape.size(); ++d)
    local[d] = blockSize(shape[d], mesh.sizeOf(axes[d]));
  return local;
}

std::vector<Range> Sharding::block(const Mesh &mesh, std::span<const int64_t> shape,
                                   int64_t rank) const {
  assert(axes.size() == shape.size() && "a list of axes for each dimension");
  std::vector<Range> ranges(shape.size());
  for (size_t d = 0; d < shape.size(); ++d)
    ranges[d] = blockRange(shape[d], mesh.sizeOf(axes[d]), mesh.indexOf(rank, axes[d]));
  return ranges;
}

bool Sharding::isPrimaryReplica(const Mesh &mesh, int64_t rank,
                                std::span<const int32_t> apart) const {
  std::vector<bool> used(mesh.axes.size(), false);
  for (int32_t axis : apart)
    used[axis] = true;
  for (const AxisList &list : axes)
    for (int32_t axis : list)
      used[axis] = true;
  const std::vector<int64_t> at = mesh.coordinates(rank);
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i] && at[i] != 0)
      return false;
  return true;
}

} // namespace cleave::rt

// Arithmetic on boxes.
#include "runtime/Checkpoint/Box.h"

#include <fmt/format.h>

#include <algorithm>

namespace cleave::rt {

std::optional<uint64_t> volumeOf(const Shape &shape) {
  // Any zero makes the product zero, whatever overflow precedes it.
  if (std::ranges::any_of(shape, [](int64_t size) { return size < 0; }))
    return std::nullopt;
  if (std::ranges::find(shape, 0) != shape.end())
    return 0;
  uint64_t volume = 1;
  for (int64_t size : shape)
    if (__builtin_mul_overflow(volume, static_cast<uint64_t>(size), &volume))
      return std::nullopt;
  return volume;
}

std::vector<int64_t> rowMajorStrides(const Shape &shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d];
  return strides;
}

bool Box::isInside(const Shape &shape) const {
  if (offset.size() != shape.size() || extent.size() != shape.size())
    return false;
  for (size_t d = 0; d < shape.size(); ++d)
    if (offset[d] < 0 || extent[d] < 0 || offset[d] > shape[d] || extent[d] > shape[d] - offset[d])
      return false;
  return true;
}

bool Box::empty() const { return std::ranges::find(extent, 0) != extent.end(); }

uint64_t Box::volume() const {
  uint64_t volume = 1;
  for (int64_t size : extent)
    volume *= static_cast<uint64_t>(size);
  return volume;
}

std::string Box::toString() const {
  std::string text = "[";
  for (size_t d = 0; d < offset.size(); ++d)
    text += fmt::format("{}{}:{}", d ? ", " : "", offset[d], offset[d] + extent[d]);
  return text + "]";
}

std::optional<Box> intersection(const Box &a, const Box &b) {
  Box common;
  for (size_t d = 0; d < a.offset.size(); ++d) {
    const int64_t begin = std::max(a.offset[d], b.offset[d]);
    const int64_t end = std::min(a.offset[d] + a.extent[d], b.offset[d] + b.extent[d]);
    if (begin >= end)
      return std::nullopt;
    common.offset.push_back(begin);
    common.extent.push_back(end - begin);
  }
  return common;
}

std::vector<Box> boxesOfFlatRange(const Shape &shape, uint64_t begin, uint64_t end) {
  std::vector<Box> boxes;
  const std::vector<int64_t> strides = rowMajorStrides(shape);
  const size_t rank = shape.size();
  while (begin < end) {
    // The largest box that starts at `begin`: whole slices of the outermost
    // dimension at whose border `begin` lies and that has a whole slice left.
    size_t along = 0;
    while (along + 1 < rank && (begin % static_cast<uint64_t>(strides[along]) != 0 ||
                                end - begin < static_cast<uint64_t>(strides[along])))
      ++along;
    Box box = Box::whole(shape);
    uint64_t rest = begin;
    for (size_t d = 0; d < rank; ++d) {
      const auto stride = static_cast<uint64_t>(strides[d]);
      if (d <= along) {
        box.offset[d] = static_cast<int64_t>(rest / stride);
        box.extent[d] = 1;
      }
      rest %= stride;
    }
    if (rank > 0) {
      const auto slices =
          static_cast<int64_t>((end - begin) / static_cast<uint64_t>(strides[along]));
      box.extent[along] = std::min(slices, shape[along] - box.offset[along]);
    }
    begin += box.volume();
    boxes.push_back(std::move(box));
  }
  return boxes;
}

} // namespace cleave::rt

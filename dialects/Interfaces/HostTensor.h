//===- HostTensor.h - A dense float64 tensor of the reference interpreter --===//
//
// The value type of the reference interpreter: a shape and row-major float64
// elements. Integers (token ids, positions) are held as exact doubles. It is
// made for clearness, not for speed: every kernel is checked against programs
// that are interpreted on this type.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cassert>
#include <cstdint>
#include <vector>

namespace cleave {

/// A dense row-major tensor of doubles. Rank 0 holds one element.
struct HostTensor {
  llvm::SmallVector<int64_t> shape;
  std::vector<double> data;

  HostTensor() = default;
  explicit HostTensor(llvm::ArrayRef<int64_t> shape, double value = 0.0)
      : shape(shape), data(static_cast<size_t>(count(shape)), value) {}

  static int64_t count(llvm::ArrayRef<int64_t> shape) {
    int64_t n = 1;
    for (int64_t d : shape)
      n *= d;
    return n;
  }
  int64_t size() const { return static_cast<int64_t>(data.size()); }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  /// Row-major strides in elements.
  llvm::SmallVector<int64_t> strides() const {
    llvm::SmallVector<int64_t> s(shape.size(), 1);
    for (int64_t i = rank() - 2; i >= 0; --i)
      s[i] = s[i + 1] * shape[i + 1];
    return s;
  }
};

/// Calls `fn(index)` for every index vector of `shape`, in row-major order.
template <typename Fn> void forEachIndex(llvm::ArrayRef<int64_t> shape, Fn fn) {
  llvm::SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t n = HostTensor::count(shape); n > 0; --n) {
    fn(llvm::ArrayRef<int64_t>(index));
    for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

/// Row-major position of `index` under `strides`.
inline int64_t linearIndex(llvm::ArrayRef<int64_t> index, llvm::ArrayRef<int64_t> strides) {
  assert(index.size() == strides.size());
  int64_t p = 0;
  for (size_t i = 0; i < index.size(); ++i)
    p += index[i] * strides[i];
  return p;
}

} // namespace cleave

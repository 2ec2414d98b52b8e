//===- Sizes.h - Smaller sizes that divide alike ---------------------------===//
#pragma once

#include <algorithm>
#include <cstdint>

namespace cleave {

/// The smallest size of at least `least` that leaves the same rest as `size` when it is dealt
/// out `ways` ways, gives each something where `size` does, and is not larger.
inline int64_t smallerAlike(int64_t size, int64_t ways, int64_t least) {
  int64_t small = size % ways;
  while (small < std::max(least, std::min(size, ways)))
    small += ways;
  return std::min(small, size);
}

} // namespace cleave

// Products of sizes read from a file, without overflow: a size that would pass
// int64 is an error of the file, never a small number.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>

namespace cleave::rt {

/// The product, or nothing if a factor is negative or it exceeds int64.
inline std::optional<int64_t> checkedProduct(std::span<const int64_t> factors) {
  int64_t product = 1;
  for (int64_t factor : factors)
    if (factor < 0 || __builtin_mul_overflow(product, factor, &product))
      return std::nullopt;
  return product;
}

inline std::optional<int64_t> checkedProduct(std::initializer_list<int64_t> factors) {
  return checkedProduct(std::span<const int64_t>(factors.begin(), factors.size()));
}

} // namespace cleave::rt

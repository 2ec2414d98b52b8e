// Matrices of bf16 as f32 and back, for processors on which oneDNN has no products of
// bf16. Plain loops: the compiler makes vectors of them.
#pragma once

#include <bit>
#include <cstdint>

namespace cleave::rt {

/// to[i, j] = from[i * rowStride + j * columnStride], dense.
inline void widen(const uint16_t *from, int64_t rowStride, int64_t columnStride, int64_t rows,
                  int64_t columns, float *to) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      to[i * columns + j] =
          std::bit_cast<float>(static_cast<uint32_t>(from[i * rowStride + j * columnStride]) << 16);
}

/// To the nearest, ties to even; NaN stays one.
inline uint16_t roundToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// to[i * rowStride + j * columnStride] = from[i, j], which is dense.
inline void roundRows(const float *from, int64_t rows, int64_t columns, uint16_t *to,
                      int64_t rowStride, int64_t columnStride) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      to[i * rowStride + j * columnStride] = roundToBf16(from[i * columns + j]);
}

} // namespace cleave::rt

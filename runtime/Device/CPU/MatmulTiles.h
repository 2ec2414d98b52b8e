// How a product is cut into tasks: a function of its sizes alone.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cleave::rt {

struct TileGrid {
  /// Rows and columns of a tile; those at the edge are shorter.
  int64_t tileM = 0, tileN = 0;
  int64_t tilesM = 0, tilesN = 0;
  /// Matrices of the batch that one task computes, one after the other.
  int64_t group = 1;
};

/// Operations up to which a product stays whole: about 50 µs of work.
inline constexpr double wholeFlops = 4e6;

/// For a positive m, n, k. A small product stays whole (and
/// neighbours of a batch share a task); above, tiles of 128 × 192 keep packing
/// near a tenth of the work, and grow where there are more than enough of them.
inline TileGrid chooseTiles(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t enoughTiles = 64, widest = 1024;
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  TileGrid grid;
  if (flops <= wholeFlops) {
    grid = {m, n, 1, 1, 1};
    grid.group = static_cast<int64_t>(std::max(1.0, wholeFlops / flops));
    return grid;
  }
  auto ceilDivide = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  int64_t tileM = 128, tileN = 192;
  while (ceilDivide(m, tileM) * ceilDivide(n, tileN) > enoughTiles && tileN < widest) {
    tileM *= 2;
    tileN *= 2;
  }
  // Even out the tiles, in multiples of the registers' block of a product kernel.
  auto even = [&](int64_t size, int64_t tile, int64_t multiple) {
    const int64_t each = ceilDivide(size, ceilDivide(size, tile));
    return ceilDivide(each, multiple) * multiple;
  };
  grid.tileM = std::min(m, even(m, tileM, 16));
  grid.tileN = std::min(n, even(n, tileN, 48));
  grid.tilesM = ceilDivide(m, grid.tileM);
  grid.tilesN = ceilDivide(n, grid.tileN);
  return grid;
}

} // namespace cleave::rt

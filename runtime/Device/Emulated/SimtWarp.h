//===- SimtWarp.h - what the threads of a warp do together ------*- C++ -*-===//
//
// Shuffles, votes, matrices of 8 × 8 loaded from shared memory, and products of tiles, as
// the PTX manual lays their fragments out over lanes. Each is done once for a warp, when all
// of its lanes have come to it with their operands.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "SimtBlock.h"

#include <cmath>

namespace simt {

struct Shuffled {
  uint64_t sent = 0, received = 0;
  int partner = 0;
};

inline void performShuffle(void *const *operands, int lanes) {
  for (int lane = 0; lane < lanes; ++lane) {
    auto *own = static_cast<Shuffled *>(operands[lane]);
    int from = own->partner >= 0 && own->partner < lanes ? own->partner : lane;
    own->received = static_cast<const Shuffled *>(operands[from])->sent;
  }
}

struct Vote {
  bool mine = false;
  unsigned all = 0;
};

inline void performVote(void *const *operands, int lanes) {
  unsigned all = 0;
  for (int lane = 0; lane < lanes; ++lane)
    all |= unsigned(static_cast<const Vote *>(operands[lane])->mine) << lane;
  for (int lane = 0; lane < lanes; ++lane)
    static_cast<Vote *>(operands[lane])->all = all;
}

inline constexpr WarpOperation kSyncWarp{"__syncwarp", nullptr, /*withoutSome=*/true};
inline constexpr WarpOperation kShuffle{"a shuffle", performShuffle};
inline constexpr WarpOperation kVote{"a vote", performVote};

template <class T> T shuffle(T value, int partner) {
  static_assert(sizeof(T) <= 8);
  Shuffled operands;
  std::memcpy(&operands.sent, &value, sizeof(T));
  operands.partner = partner;
  together(kShuffle, &operands);
  T result;
  std::memcpy(&result, &operands.received, sizeof(T));
  return result;
}

inline int lane() { return block.current % kWarp; }

inline unsigned vote(bool mine) {
  Vote operands{mine, 0};
  together(kVote, &operands);
  return operands.all;
}

/// ldmatrix: lane l names row l % 8 of matrix l / 8, of 16 bytes, and gets of each matrix j
/// elements 2 · (l % 4) and the next of row l / 4; transposed, of that column.
struct MatrixLoad {
  const void *row;
  uint32_t *registers;
  int count = 4;
  bool transposed = false;
};

inline void performMatrixLoad(void *const *operands, int lanes) {
  auto at = [&](int lane) { return static_cast<const MatrixLoad *>(operands[lane]); };
  const bool transposed = at(0)->transposed;
  for (int matrix = 0; matrix < at(0)->count; ++matrix) {
    uint16_t rows[8][8];
    for (int row = 0; row < 8; ++row)
      std::memcpy(rows[row], at(8 * matrix + row)->row, 16);
    for (int lane = 0; lane < lanes; ++lane) {
      int row = lane / 4, column = 2 * (lane % 4);
      uint16_t low = transposed ? rows[column][row] : rows[row][column];
      uint16_t high = transposed ? rows[column + 1][row] : rows[row][column + 1];
      at(lane)->registers[matrix] = low | uint32_t(high) << 16;
    }
  }
}

// An operation for each form, so that lanes of different ones don't meet.
template <int count, bool transposed>
inline constexpr WarpOperation kMatrixLoad{"ldmatrix", performMatrixLoad};

template <int count, bool transposed> void loadMatrices(uint32_t *registers, const void *row) {
  MatrixLoad operands{row, registers, count, transposed};
  {
    Unwatched shim;
    if (lane() < 8 * count)
      memory.checkShared(row, 16, "reads");
  }
  together(kMatrixLoad<count, transposed>, &operands);
}

inline float fromBf16(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

inline float fromHalf(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float size = exponent == 31  ? (fraction ? NAN : INFINITY)
               : exponent == 0 ? std::ldexp(float(fraction), -24)
                               : std::ldexp(float(fraction + 1024), exponent - 25);
  return bits >> 15 ? -size : size;
}

/// mma.m16n8k16: of lane l, with r = l / 4 and c = 2 · (l % 4), the registers of a hold
/// (r, c), (r + 8, c), (r, c + 8), (r + 8, c + 8), those of b (k = c, n = r), (c + 8, r), each
/// with its neighbour in k, and those of the sums (r, c), (r, c + 1), (r + 8, c), (r + 8, c + 1).
struct TileProduct {
  float *sums;
  const uint32_t *a, *b;
};

template <float (*widened)(uint16_t)> void performTileProduct(void *const *operands, int lanes) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < lanes; ++lane) {
    auto *own = static_cast<const TileProduct *>(operands[lane]);
    int r = lane / 4, c = 2 * (lane % 4);
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i)
        a[r + 8 * (i % 2)][c + 8 * (i / 2) + half] = widened(uint16_t(own->a[i] >> 16 * half));
      for (int i = 0; i < 2; ++i)
        b[c + 8 * i + half][r] = widened(uint16_t(own->b[i] >> 16 * half));
    }
  }
  for (int lane = 0; lane < lanes; ++lane) {
    auto *own = static_cast<const TileProduct *>(operands[lane]);
    int r = lane / 4, c = 2 * (lane % 4);
    for (int i = 0; i < 4; ++i) {
      float sum = own->sums[i];
      for (int k = 0; k < 16; ++k)
        sum += a[r + 8 * (i / 2)][k] * b[k][c + i % 2];
      own->sums[i] = sum;
    }
  }
}

inline constexpr WarpOperation kBf16Product{"mma.bf16", performTileProduct<fromBf16>};
inline constexpr WarpOperation kHalfProduct{"mma.f16", performTileProduct<fromHalf>};

/// cp.async of 16 bytes, of which the first `bytes` are read and the others become zero.
inline void copyAsync(void *to, const void *from, int bytes) {
  Unwatched shim;
  memory.checkShared(to, 16, "writes");
  if (reinterpret_cast<uintptr_t>(from) % 16 != 0)
    fail("copies 16 bytes from an address that is not aligned");
  memory.check(from, bytes, "reads");
  self().copies.start(static_cast<char *>(to), static_cast<const char *>(from), bytes);
}

template <class T> T atomic(T *at, const std::function<T(T)> &change) {
  Unwatched shim;
  memory.check(at, sizeof(T), "writes");
  T old = *at;
  *at = change(old);
  return old;
}

} // namespace simt

//===- Arena.h - Packing buffers by lifetime -------------------------------===//
//
// Buffers that are never alive together may lie at one address. The packing is
// done once, at compile time; the runtime only adds offsets.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace cleave::image {

/// A buffer that is written first by command `begin` and read last by `end`.
struct Lifetime {
  int64_t bytes = 0;
  int64_t begin = 0, end = 0;
};

struct Packing {
  /// An offset for each buffer, multiples of 64.
  llvm::SmallVector<int64_t> offsets;
  /// Size of the whole arena.
  int64_t bytes = 0;
  /// Most bytes that are alive at once: no packing can be smaller.
  int64_t bound = 0;
};

/// `bytes` and what is left free behind them.
int64_t alignedInArena(int64_t bytes);

/// Largest buffers first, each at the lowest offset where it meets no other that
/// is alive with it. Deterministic.
Packing packArena(llvm::ArrayRef<Lifetime> buffers);

} // namespace cleave::image

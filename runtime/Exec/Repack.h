// Copies between a tensor and the blocks a group of ranks cuts it into, so that
// communicators only ever move contiguous, equally large blocks. Sizes as in
// CutDimension and AllToAllCommand, widths in bytes; staged blocks lie one after
// the other, padding included. Nothing here communicates.
#pragma once

#include "runtime/Base/ThreadPool.h"
#include "runtime/Schema/Program.h"

#include <cstddef>

namespace cleave::rt {

/// One dimension of [outer, full, inner] cut among `members`.
struct CutLayout {
  CutLayout(const CutDimension &cut, int64_t members, int64_t elementBytes);

  int64_t members;
  int64_t outer;
  int64_t full;
  /// Bytes of one index of the cut dimension.
  int64_t innerBytes;
  /// ceil(full / members).
  int64_t block;

  int64_t blockBytes() const { return outer * block * innerBytes; }
  int64_t stagedBytes() const { return members * blockBytes(); }
  /// Blocks one after the other are the tensor itself.
  bool isContiguous() const { return outer == 1 && full == members * block; }
};

/// staged [members][outer, block, inner] → whole [outer, full, inner].
Status unpackGathered(ThreadPool &pool, const CutLayout &layout, const std::byte *staged,
                      std::byte *whole);

/// whole → staged, padding zero.
Status packBlocks(ThreadPool &pool, const CutLayout &layout, const std::byte *whole,
                  std::byte *staged);

/// Block `index` of the whole, padding zero.
void copyBlock(const CutLayout &layout, int64_t index, const std::byte *whole, std::byte *block);

/// The two cuts of an all-to-all; see AllToAllCommand.
struct ExchangeLayout {
  ExchangeLayout(const AllToAllCommand &command, int64_t members);

  int64_t members;
  int64_t outer, first, middle, second;
  int64_t innerBytes;
  int64_t firstBlock, secondBlock;
  bool splitFirst;

  /// What one rank sends to one other.
  int64_t messageBytes() const { return outer * firstBlock * middle * secondBlock * innerBytes; }
  int64_t stagedBytes() const { return members * messageBytes(); }
};

/// source → messages to all members, one after the other, padding zero.
Status packMessages(ThreadPool &pool, const ExchangeLayout &layout, const std::byte *source,
                    std::byte *staged);

/// Messages from all members → target.
Status unpackMessages(ThreadPool &pool, const ExchangeLayout &layout, const std::byte *staged,
                      std::byte *target);

} // namespace cleave::rt

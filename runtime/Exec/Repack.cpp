// Block copies around collectives.
#include "runtime/Exec/Repack.h"

#include "runtime/Device/CPU/Tasks.h"

#include <algorithm>
#include <cstring>

namespace cleave::rt {

CutLayout::CutLayout(const CutDimension &cut, int64_t members, int64_t elementBytes)
    : members(members), outer(cut.outer), full(cut.full), innerBytes(cut.inner * elementBytes),
      block(blockSize(cut.full, members)) {}

namespace {

/// Copies `count` pieces of `bytes` bytes, or nothing at all.
void copyBytes(std::byte *to, const std::byte *from, int64_t bytes) {
  if (bytes > 0)
    std::memcpy(to, from, static_cast<size_t>(bytes));
}

void zeroBytes(std::byte *at, int64_t bytes) {
  if (bytes > 0)
    std::memset(at, 0, static_cast<size_t>(bytes));
}

} // namespace

void copyBlock(const CutLayout &layout, int64_t index, const std::byte *whole, std::byte *block) {
  const Range range = blockRange(layout.full, layout.members, index);
  const int64_t real = range.size() * layout.innerBytes;
  const int64_t padded = layout.block * layout.innerBytes;
  for (int64_t o = 0; o < layout.outer; ++o) {
    copyBytes(block + o * padded, whole + (o * layout.full + range.begin) * layout.innerBytes,
              real);
    zeroBytes(block + o * padded + real, padded - real);
  }
}

Status packBlocks(ThreadPool &pool, const CutLayout &layout, const std::byte *whole,
                  std::byte *staged) {
  return runTasks(pool, layout.members, [&](int64_t member, unsigned) {
    copyBlock(layout, member, whole, staged + member * layout.blockBytes());
  });
}

Status unpackGathered(ThreadPool &pool, const CutLayout &layout, const std::byte *staged,
                      std::byte *whole) {
  const int64_t padded = layout.block * layout.innerBytes;
  return runTasks(pool, layout.members, [&](int64_t member, unsigned) {
    const Range range = blockRange(layout.full, layout.members, member);
    const std::byte *from = staged + member * layout.blockBytes();
    for (int64_t o = 0; o < layout.outer; ++o)
      copyBytes(whole + (o * layout.full + range.begin) * layout.innerBytes, from + o * padded,
                range.size() * layout.innerBytes);
  });
}

ExchangeLayout::ExchangeLayout(const AllToAllCommand &command, int64_t members)
    : members(members), outer(command.outer), first(command.first), middle(command.middle),
      second(command.second), innerBytes(command.inner * elementBytes(command.type)),
      firstBlock(blockSize(command.first, members)),
      secondBlock(blockSize(command.second, members)), splitFirst(command.splitFirst) {}

namespace {

/// Calls `copy(message offset, tensor offset, bytes, room)` for every run of a
/// message with peer `peer`, where the tensor is cut by the peer along the first
/// (`cutFirst`) or the second dimension and already a block along the other.
/// `bytes` of `room` lie inside the tensor.
template <typename Copy>
void eachRun(const ExchangeLayout &l, bool cutFirst, int64_t peer, Copy copy) {
  const int64_t tensorFirst = cutFirst ? l.first : l.firstBlock;
  const int64_t tensorSecond = cutFirst ? l.secondBlock : l.second;
  const Range firstRange = cutFirst ? blockRange(l.first, l.members, peer) : Range{0, l.firstBlock};
  const Range secondRange =
      cutFirst ? Range{0, l.secondBlock} : blockRange(l.second, l.members, peer);
  const int64_t room = l.secondBlock * l.innerBytes;
  int64_t message = 0;
  for (int64_t o = 0; o < l.outer; ++o)
    for (int64_t f = 0; f < l.firstBlock; ++f)
      for (int64_t m = 0; m < l.middle; ++m, message += room) {
        const int64_t row = firstRange.begin + f;
        const bool inside = row < firstRange.end;
        const int64_t at = ((o * tensorFirst + row) * l.middle + m) * tensorSecond;
        copy(message, (at + secondRange.begin) * l.innerBytes,
             inside ? secondRange.size() * l.innerBytes : 0, room);
      }
}

} // namespace

Status packMessages(ThreadPool &pool, const ExchangeLayout &layout, const std::byte *source,
                    std::byte *staged) {
  return runTasks(pool, layout.members, [&](int64_t peer, unsigned) {
    std::byte *to = staged + peer * layout.messageBytes();
    eachRun(layout, layout.splitFirst, peer,
            [&](int64_t message, int64_t tensor, int64_t bytes, int64_t room) {
              copyBytes(to + message, source + tensor, bytes);
              zeroBytes(to + message + bytes, room - bytes);
            });
  });
}

Status unpackMessages(ThreadPool &pool, const ExchangeLayout &layout, const std::byte *staged,
                      std::byte *target) {
  // What was cut by peers in the source is whole in the target and arrives in
  // blocks, so the target is walked along the other dimension.
  return runTasks(pool, layout.members, [&](int64_t peer, unsigned) {
    const std::byte *from = staged + peer * layout.messageBytes();
    eachRun(layout, !layout.splitFirst, peer,
            [&](int64_t message, int64_t tensor, int64_t bytes, int64_t) {
              copyBytes(target + tensor, from + message, bytes);
            });
  });
}

} // namespace cleave::rt

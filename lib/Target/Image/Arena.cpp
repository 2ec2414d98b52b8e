//===- Arena.cpp - Packing buffers by lifetime -----------------------------===//

#include "lib/Target/Image/Arena.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

namespace cleave::image {

static constexpr int64_t kAlignment = 64;

int64_t alignedInArena(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Most bytes alive at once.
static int64_t peak(llvm::ArrayRef<Lifetime> buffers) {
  std::map<int64_t, int64_t> change;
  for (const Lifetime &b : buffers) {
    change[b.begin] += alignedInArena(b.bytes);
    change[b.end + 1] -= alignedInArena(b.bytes);
  }
  int64_t now = 0, most = 0;
  for (auto [at, delta] : change)
    most = std::max(most, now += delta);
  return most;
}

Packing packArena(llvm::ArrayRef<Lifetime> buffers) {
  Packing packing;
  packing.offsets.assign(buffers.size(), 0);
  packing.bound = peak(buffers);
  llvm::SmallVector<size_t> order;
  for (size_t i = 0; i < buffers.size(); ++i)
    order.push_back(i);
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::pair(-buffers[a].bytes, a) < std::pair(-buffers[b].bytes, b);
  });
  llvm::SmallVector<size_t> placed; // by offset
  for (size_t i : order) {
    const Lifetime &mine = buffers[i];
    int64_t offset = 0;
    for (size_t other : placed) {
      const Lifetime &theirs = buffers[other];
      if (theirs.end < mine.begin || mine.end < theirs.begin)
        continue;
      if (packing.offsets[other] >= offset + alignedInArena(mine.bytes))
        break; // the gap before it is wide enough
      offset = std::max(offset, packing.offsets[other] + alignedInArena(theirs.bytes));
    }
    packing.offsets[i] = offset;
    packing.bytes = std::max(packing.bytes, offset + alignedInArena(mine.bytes));
    placed.insert(llvm::upper_bound(placed, offset,
                                    [&](int64_t o, size_t p) { return o < packing.offsets[p]; }),
                  i);
  }
  return packing;
}

} // namespace cleave::image

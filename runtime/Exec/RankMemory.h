// The memory of one rank: its segments, allocated once, and the addresses of
// regions in them. Pages come from the system zeroed and are only taken when
// first touched; large segments ask for huge pages. Nothing is ever moved or
// freed before the rank ends.
#pragma once

#include "runtime/Base/Status.h"
#include "runtime/Schema/Program.h"

#include <cstddef>
#include <span>
#include <vector>

namespace cleave::rt {

/// Anonymous zeroed memory that starts at a multiple of 64 (in fact of a page).
class ZeroedMemory {
public:
  /// `runtime.out_of_memory` with bytes and `what` if the system refuses.
  static StatusOr<ZeroedMemory> allocate(int64_t bytes, const std::string &what);
  ZeroedMemory() = default;
  ZeroedMemory(ZeroedMemory &&other) noexcept;
  ZeroedMemory &operator=(ZeroedMemory &&other) noexcept;
  ~ZeroedMemory();

  std::byte *data() const { return start; }
  int64_t size() const { return bytes; }

private:
  std::byte *start = nullptr;
  int64_t bytes = 0;
  size_t mapped = 0;
};

class RankMemory {
public:
  /// All segments of a validated program.
  static StatusOr<RankMemory> allocate(const Program &program);

  /// In copy 0 of a segment with several.
  std::byte *address(const Region &region) const {
    return segments[static_cast<size_t>(region.segment)].data() + region.offset;
  }
  float *floats(const Region &region) const { return reinterpret_cast<float *>(address(region)); }
  int32_t *ints(const Region &region) const { return reinterpret_cast<int32_t *>(address(region)); }
  /// For each segment the bytes from copy 0 to copy `slot`; 0 where there is one.
  std::vector<int64_t> distancesTo(int64_t slot) const;
  /// Bytes of all segments.
  int64_t totalBytes() const;

private:
  std::vector<ZeroedMemory> segments;
  /// From one copy of a segment to the next; 0 where there is one.
  std::vector<int64_t> copyStrides;
};

/// Writes the constants of `program` as `rank` sees them.
void fillConstants(const Program &program, int64_t rank, const RankMemory &memory);

} // namespace cleave::rt

// The memory of one rank: its segments, allocated once and zeroed, and the addresses of
// regions in them. It comes from the system, or from the rank's device where it has one.
// Nothing is ever moved or freed before the rank ends.
#pragma once

#include "runtime/Device/Device.h"
#include "runtime/Schema/Program.h"

#include <cstddef>
#include <span>
#include <vector>

namespace cleave::rt {

class RankMemory {
public:
  /// All segments of a validated program, on `device` unless that is null.
  static StatusOr<RankMemory> allocate(const Program &program, RankDevice *device = nullptr);

  /// In copy 0 of a segment with several.
  std::byte *address(const Region &region) const {
    return segments[static_cast<size_t>(region.segment)].start.get() + region.offset;
  }
  float *floats(const Region &region) const { return reinterpret_cast<float *>(address(region)); }
  int32_t *ints(const Region &region) const { return reinterpret_cast<int32_t *>(address(region)); }
  /// For each segment the bytes from copy 0 to copy `slot`; 0 where there is one.
  std::vector<int64_t> distancesTo(int64_t slot) const;
  /// Bytes of all segments.
  int64_t totalBytes() const;

private:
  std::vector<DeviceBytes> segments;
  /// From one copy of a segment to the next; 0 where there is one.
  std::vector<int64_t> copyStrides;
};

/// Writes the constants of `program` as `rank` sees them.
void fillConstants(const Program &program, int64_t rank, const RankMemory &memory);

} // namespace cleave::rt

//===- LaidOut.h - Memory of a layout, to the byte ----------------------------===//
//
// The cost model's memory is a formula. A target that packs a rank's memory when it
// compiles knows it to the byte, and soon: programs don't grow with depth. The search
// can't include a target (design: planners see no target), so that one is handed to it
// as this interface.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

struct PricedChoice;

/// What ranks allocate.
struct LaidOutMemory {
  struct Segment {
    std::string name;
    int64_t bytes = 0;
  };
  /// Of a rank at each place of the pipeline; one without a pipeline.
  std::vector<std::vector<Segment>> places;

  int64_t bytesOf(size_t place) const {
    int64_t sum = 0;
    for (const Segment &segment : places[place])
      sum += segment.bytes;
    return sum;
  }
  /// The place that allocates the most.
  size_t fullest() const {
    size_t most = 0;
    for (size_t place = 1; place < places.size(); ++place)
      if (bytesOf(place) > bytesOf(most))
        most = place;
    return most;
  }
  int64_t bytes() const { return places.empty() ? 0 : bytesOf(fullest()); }
};

/// A target, as far as the search asks it.
class MemoryLayouter {
public:
  virtual ~MemoryLayouter() = default;
  /// What a rank allocates for a step under `found`, its stages included; nothing where the target
  /// can't carry it out. The same question has the same answer.
  virtual std::optional<LaidOutMemory> layOut(const PricedChoice &found) = 0;
};

} // namespace cleave

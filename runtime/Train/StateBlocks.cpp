// Blocks of parameters as runs.
#include "runtime/Train/StateBlocks.h"

#include <algorithm>

namespace cleave::rt {

Box boxOf(const Program &program, const StateEntry &entry, Slot slot, int64_t rank) {
  Box box;
  for (const Range &range : entry.shardingOf(slot).block(program.mesh, entry.shape, rank)) {
    box.offset.push_back(range.begin);
    box.extent.push_back(range.size());
  }
  return box;
}

std::vector<int64_t> localStrides(const Program &program, const StateEntry &entry, Slot slot) {
  return rowMajorStrides(entry.shardingOf(slot).localShape(program.mesh, entry.shape));
}

std::vector<StateRun> runsOf(const Program &program, const StateEntry &entry, int64_t rank,
                             int64_t longest) {
  const Box box = boxOf(program, entry, Slot::Value, rank);
  const std::vector<int64_t> strides = localStrides(program, entry, Slot::Value);
  std::vector<StateRun> runs;
  forEachRun(box, Box::whole(entry.shape), rowMajorStrides(entry.shape), box, strides,
             [&](int64_t global, int64_t local, int64_t count) {
               // Rows that follow each other on both sides are one run.
               if (!runs.empty() && runs.back().global + runs.back().count == global &&
                   runs.back().local + runs.back().count == local &&
                   runs.back().count + count <= longest) {
                 runs.back().count += count;
                 return;
               }
               for (int64_t at = 0; at < count; at += longest)
                 runs.push_back({global + at, local + at, std::min(longest, count - at)});
             });
  return runs;
}

} // namespace cleave::rt

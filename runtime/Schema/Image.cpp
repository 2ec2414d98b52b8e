// What is asked of all programs together.
#include "runtime/Schema/Image.h"

#include <algorithm>

namespace cleave::rt {

const Program &Image::of(int64_t rank) const {
  const Program &common = first();
  if (!common.pipeline)
    return common;
  return programs[static_cast<size_t>(common.mesh.indexOf(rank, common.pipeline->axes))];
}

int64_t Image::stages() const {
  int64_t count = 0;
  for (const Program &program : programs)
    if (program.pipeline)
      count += static_cast<int64_t>(program.pipeline->stages.size());
  return count;
}

std::vector<Image::Tensor> Image::tensors() const {
  std::vector<Tensor> all;
  for (size_t i = 0; i < programs.size(); ++i)
    for (const StateEntry &entry : programs[i].state)
      if (entry.counted)
        all.push_back({&entry, i});
  return all;
}

int64_t Image::parameterCount() const {
  int64_t count = 0;
  for (const Tensor &tensor : tensors())
    count += elementCount(tensor.entry->shape);
  return count;
}

std::optional<int64_t> Image::predictedBytesPerRank() const {
  std::optional<int64_t> most = 0;
  for (const Program &program : programs) {
    if (!program.prediction.bytesPerRank)
      return std::nullopt;
    most = std::max(*most, *program.prediction.bytesPerRank);
  }
  return most;
}

} // namespace cleave::rt

// Assembling tensors from the ranks' blocks, a stretch at a time.
#include "runtime/Train/Export.h"

#include "runtime/Base/Files.h"
#include "runtime/Train/StateBlocks.h"

#include <algorithm>
#include <map>

namespace cleave::rt {
namespace {

constexpr uint64_t stretch = 1 << 20;

/// One rank's part of a tensor.
struct Part {
  Box box;
  const float *values;
};

/// The blocks that together hold each element once.
std::vector<Part> partsOf(const Program &program, const StateEntry &entry,
                          const std::vector<const RankMemory *> &ranks) {
  std::vector<Part> parts;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (entry.shardingOf(Slot::Value).isPrimaryReplica(program.mesh, static_cast<int64_t>(rank)))
      parts.push_back({boxOf(program, entry, Slot::Value, static_cast<int64_t>(rank)),
                       ranks[rank]->floats(*entry.slot(Slot::Value))});
  return parts;
}

Status appendTensor(const Program &program, const StateEntry &entry,
                    const std::vector<const RankMemory *> &ranks, SafeTensorsWriter &writer) {
  const std::vector<Part> parts = partsOf(program, entry, ranks);
  const std::vector<int64_t> local = localStrides(program, entry, Slot::Value);
  const std::vector<int64_t> global = rowMajorStrides(entry.shape);
  const Box whole = Box::whole(entry.shape);
  const uint64_t total = volumeOf(entry.shape).value_or(0);
  std::vector<float> values(std::min(stretch, total));
  for (uint64_t begin = 0; begin < total; begin += stretch) {
    const uint64_t end = std::min(total, begin + stretch);
    for (const Box &box : boxesOfFlatRange(entry.shape, begin, end))
      for (const Part &part : parts)
        if (auto common = intersection(box, part.box))
          forEachRun(*common, part.box, local, whole, global,
                     [&](int64_t from, int64_t to, int64_t count) {
                       std::copy_n(part.values + from, count,
                                   values.data() + (to - static_cast<int64_t>(begin)));
                     });
    CLEAVE_RT_RETURN_IF_ERROR(writer.append(std::span(values).first(end - begin)));
  }
  return {};
}

} // namespace

Status exportModel(const Program &program, const std::vector<const RankMemory *> &ranks,
                   const std::string &folder, FloatType type) {
  CLEAVE_RT_RETURN_IF_ERROR(createFolders(folder));
  std::map<std::string, const StateEntry *> byName;
  std::vector<TensorPlan> plans;
  for (const StateEntry &entry : program.state) {
    byName[entry.name] = &entry;
    plans.push_back({entry.name, type, entry.fileShape});
  }
  CLEAVE_RT_ASSIGN_OR_RETURN(SafeTensorsWriter writer,
                             SafeTensorsWriter::create(folder + "/model.safetensors",
                                                       std::move(plans), {{"format", "pt"}},
                                                       "export.write_failed"));
  // The writer fixes the order; its list must not move while we walk it.
  const std::vector<TensorPlan> order = writer.tensors();
  for (const TensorPlan &plan : order)
    CLEAVE_RT_RETURN_IF_ERROR(appendTensor(program, *byName.at(plan.name), ranks, writer));
  CLEAVE_RT_RETURN_IF_ERROR(writer.commit());
  return writeFileAtomically(folder + "/config.json", program.configText);
}

} // namespace cleave::rt

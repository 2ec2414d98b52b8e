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
  int64_t rank;
  Box box;
};

/// Fills `values`, the elements of a tensor from flat index `begin` on.
using ReadStretch =
    FunctionRef<Status(const StateEntry &entry, uint64_t begin, std::span<float> values)>;

/// The blocks that together hold each element once.
std::vector<Part> partsOf(const Program &program, const StateEntry &entry) {
  std::vector<Part> parts;
  for (int64_t rank = 0; rank < program.mesh.world(); ++rank)
    if (entry.shardingOf(Slot::Value).isPrimaryReplica(program.mesh, rank))
      parts.push_back({rank, boxOf(program, entry, Slot::Value, rank)});
  return parts;
}

/// `copy(from, to, count)` for each run of `part` in the stretch: from an index in
/// the rank's block to one in the stretch.
template <typename Copy>
void forEachRunIn(const Program &program, const StateEntry &entry, const Part &part, uint64_t begin,
                  uint64_t end, Copy copy) {
  const std::vector<int64_t> local = localStrides(program, entry, Slot::Value);
  const std::vector<int64_t> global = rowMajorStrides(entry.shape);
  for (const Box &box : boxesOfFlatRange(entry.shape, begin, end))
    if (auto common = intersection(box, part.box))
      forEachRun(*common, part.box, local, Box::whole(entry.shape), global,
                 [&](int64_t from, int64_t to, int64_t count) {
                   copy(from, to - static_cast<int64_t>(begin), count);
                 });
}

/// Tensors in the order of the file; all processes walk them alike.
std::map<std::string, const StateEntry *> byName(const Program &program) {
  std::map<std::string, const StateEntry *> entries;
  for (const StateEntry &entry : program.state)
    entries[entry.name] = &entry;
  return entries;
}

template <typename Visit> Status forEachStretch(const StateEntry &entry, Visit visit) {
  const uint64_t total = volumeOf(entry.shape).value_or(0);
  std::vector<float> values(std::min(stretch, total));
  for (uint64_t begin = 0; begin < total; begin += stretch)
    CLEAVE_RT_RETURN_IF_ERROR(
        visit(begin, std::span(values).first(std::min(stretch, total - begin))));
  return {};
}

Status writeModel(const Program &program, const std::string &folder, FloatType type,
                  ReadStretch read) {
  CLEAVE_RT_RETURN_IF_ERROR(createFolders(folder));
  const auto entries = byName(program);
  std::vector<TensorPlan> plans;
  for (const StateEntry &entry : program.state)
    plans.push_back({entry.name, type, entry.fileShape});
  CLEAVE_RT_ASSIGN_OR_RETURN(SafeTensorsWriter writer,
                             SafeTensorsWriter::create(folder + "/model.safetensors",
                                                       std::move(plans), {{"format", "pt"}},
                                                       "export.write_failed"));
  // The writer fixes the order; its list must not move while we walk it.
  const std::vector<TensorPlan> order = writer.tensors();
  for (const TensorPlan &plan : order) {
    const StateEntry &entry = *entries.at(plan.name);
    CLEAVE_RT_RETURN_IF_ERROR(
        forEachStretch(entry, [&](uint64_t begin, std::span<float> values) -> Status {
          CLEAVE_RT_RETURN_IF_ERROR(read(entry, begin, values));
          return writer.append(values);
        }));
  }
  CLEAVE_RT_RETURN_IF_ERROR(writer.commit());
  return writeFileAtomically(folder + "/config.json", program.configText);
}

/// A stretch put together by all ranks: each sends what it holds of it to all.
Status gatherStretch(const Program &program, int64_t rank, const RankMemory &memory,
                     Communicator &everyone, const StateEntry &entry, uint64_t begin,
                     std::span<float> values) {
  std::vector<float> packed;
  for (const Part &part : partsOf(program, entry)) {
    packed.clear();
    const float *block = memory.floats(*entry.slot(Slot::Value));
    auto pack = [&](int64_t from, int64_t, int64_t count) {
      const size_t at = packed.size();
      packed.resize(at + static_cast<size_t>(count));
      if (part.rank == rank)
        std::copy_n(block + from, count, packed.data() + at);
    };
    forEachRunIn(program, entry, part, begin, begin + values.size(), pack);
    if (packed.empty())
      continue;
    CLEAVE_RT_RETURN_IF_ERROR(everyone.broadcast(packed, static_cast<int>(part.rank)));
    size_t at = 0;
    forEachRunIn(program, entry, part, begin, begin + values.size(),
                 [&](int64_t, int64_t to, int64_t count) {
                   std::copy_n(packed.data() + at, count, values.data() + to);
                   at += static_cast<size_t>(count);
                 });
  }
  return {};
}

} // namespace

Status exportModel(const Program &program, const std::vector<const RankMemory *> &ranks,
                   const std::string &folder, FloatType type) {
  return writeModel(
      program, folder, type,
      [&](const StateEntry &entry, uint64_t begin, std::span<float> values) -> Status {
        for (const Part &part : partsOf(program, entry)) {
          const float *block =
              ranks[static_cast<size_t>(part.rank)]->floats(*entry.slot(Slot::Value));
          forEachRunIn(program, entry, part, begin, begin + values.size(),
                       [&](int64_t from, int64_t to, int64_t count) {
                         std::copy_n(block + from, count, values.data() + to);
                       });
        }
        return {};
      });
}

Status exportTogether(const Program &program, int64_t rank, const RankMemory &memory,
                      Communicator &everyone, const std::string &folder, FloatType type) {
  everyone.setPurpose("the export");
  auto gather = [&](const StateEntry &entry, uint64_t begin, std::span<float> values) {
    return gatherStretch(program, rank, memory, everyone, entry, begin, values);
  };
  if (rank == 0)
    return writeModel(program, folder, type, gather);
  for (const auto &[name, entry] : byName(program))
    CLEAVE_RT_RETURN_IF_ERROR(forEachStretch(*entry, [&](uint64_t begin, std::span<float> values) {
      return gather(*entry, begin, values);
    }));
  return {};
}

} // namespace cleave::rt

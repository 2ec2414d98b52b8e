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
    FunctionRef<Status(const Image::Tensor &tensor, uint64_t begin, std::span<float> values)>;

/// The blocks that together hold each element once.
std::vector<Part> partsOf(const Image &image, const Image::Tensor &tensor) {
  const Program &program = image.programs[tensor.program];
  const AxisList apart = program.pipeline ? program.pipeline->axes : AxisList();
  std::vector<Part> parts;
  for (int64_t rank = 0; rank < program.mesh.world(); ++rank)
    if (&image.of(rank) == &program &&
        tensor.entry->shardingOf(Slot::Value).isPrimaryReplica(program.mesh, rank, apart))
      parts.push_back({rank, boxOf(program, *tensor.entry, Slot::Value, rank)});
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
struct FileTensor {
  Image::Tensor tensor;
  /// Which of those that the tensor is in files.
  int64_t index = 0;
};
std::map<std::string, FileTensor> byName(const Image &image) {
  std::map<std::string, FileTensor> tensors;
  for (const Image::Tensor &tensor : image.tensors())
    for (int64_t i = 0; i < tensor.entry->fileTensors(); ++i)
      tensors.emplace(tensor.entry->fileName(i), FileTensor{tensor, i});
  return tensors;
}

/// `visit(begin, values)` for each stretch of the tensor's elements, `begin` counted from
/// the first one of its entry.
template <typename Visit> Status forEachStretch(const FileTensor &file, Visit visit) {
  const uint64_t total = volumeOf(file.tensor.entry->fileShape).value_or(0);
  const uint64_t first = total * static_cast<uint64_t>(file.index), end = first + total;
  std::vector<float> values(std::min(stretch, total));
  for (uint64_t begin = first; begin < end; begin += stretch)
    CLEAVE_RT_RETURN_IF_ERROR(
        visit(begin, std::span(values).first(std::min(stretch, end - begin))));
  return {};
}

Status writeModel(const Image &image, const std::string &folder, FloatType type, ReadStretch read) {
  CLEAVE_RT_RETURN_IF_ERROR(createFolders(folder));
  const auto tensors = byName(image);
  std::vector<TensorPlan> plans;
  for (const auto &[name, file] : tensors)
    plans.push_back({name, type, file.tensor.entry->fileShape});
  CLEAVE_RT_ASSIGN_OR_RETURN(SafeTensorsWriter writer,
                             SafeTensorsWriter::create(folder + "/model.safetensors",
                                                       std::move(plans), {{"format", "pt"}},
                                                       "export.write_failed"));
  // The writer fixes the order; its list must not move while we walk it.
  const std::vector<TensorPlan> order = writer.tensors();
  for (const TensorPlan &plan : order) {
    const FileTensor &file = tensors.at(plan.name);
    CLEAVE_RT_RETURN_IF_ERROR(
        forEachStretch(file, [&](uint64_t begin, std::span<float> values) -> Status {
          CLEAVE_RT_RETURN_IF_ERROR(read(file.tensor, begin, values));
          return writer.append(values);
        }));
  }
  CLEAVE_RT_RETURN_IF_ERROR(writer.commit());
  return writeFileAtomically(folder + "/config.json", image.first().configText);
}

/// A stretch put together by all ranks: each sends what it holds of it to all.
Status gatherStretch(const Image &image, int64_t rank, const RankMemory &memory,
                     Communicator &everyone, const Image::Tensor &tensor, uint64_t begin,
                     std::span<float> values) {
  const Program &program = image.programs[tensor.program];
  const StateEntry &entry = *tensor.entry;
  std::vector<float> packed;
  for (const Part &part : partsOf(image, tensor)) {
    packed.clear();
    // Other ranks may run a program that has no such region.
    const float *block = part.rank == rank ? memory.floats(*entry.slot(Slot::Value)) : nullptr;
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

Status exportModel(const Image &image, const std::vector<const RankMemory *> &ranks,
                   const std::string &folder, FloatType type) {
  return writeModel(
      image, folder, type,
      [&](const Image::Tensor &tensor, uint64_t begin, std::span<float> values) -> Status {
        const StateEntry &entry = *tensor.entry;
        for (const Part &part : partsOf(image, tensor)) {
          const float *block =
              ranks[static_cast<size_t>(part.rank)]->floats(*entry.slot(Slot::Value));
          forEachRunIn(image.programs[tensor.program], entry, part, begin, begin + values.size(),
                       [&](int64_t from, int64_t to, int64_t count) {
                         std::copy_n(block + from, count, values.data() + to);
                       });
        }
        return {};
      });
}

Status exportTogether(const Image &image, int64_t rank, const RankMemory &memory,
                      Communicator &everyone, const std::string &folder, FloatType type) {
  everyone.setPurpose("the export");
  auto gather = [&](const Image::Tensor &tensor, uint64_t begin, std::span<float> values) {
    return gatherStretch(image, rank, memory, everyone, tensor, begin, values);
  };
  if (rank == 0)
    return writeModel(image, folder, type, gather);
  for (const auto &[name, file] : byName(image))
    CLEAVE_RT_RETURN_IF_ERROR(forEachStretch(file, [&](uint64_t begin, std::span<float> values) {
      return gather(file.tensor, begin, values);
    }));
  return {};
}

} // namespace cleave::rt

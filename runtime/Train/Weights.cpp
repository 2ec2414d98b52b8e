// Initial weights: looked up and checked once, then read block by block.
#include "runtime/Train/Weights.h"

#include "runtime/Base/Suggest.h"
#include "runtime/Device/CPU/Tasks.h"
#include "runtime/Train/Normal.h"
#include "runtime/Train/StateBlocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>

namespace cleave::rt {
namespace {

constexpr int64_t longestRun = 1 << 16;

/// The name as it may stand in a file, the exact one first.
std::vector<std::string> spellings(const std::string &name) {
  std::vector<std::string> result{name};
  for (const std::string prefix : {"model.", "transformer."}) {
    if (name.starts_with(prefix))
      result.push_back(name.substr(prefix.size()));
    else
      result.push_back(prefix + name);
  }
  return result;
}

std::optional<std::string> spellingIn(const TensorCollection &files, const std::string &name) {
  for (const std::string &spelling : spellings(name))
    if (files.find(spelling))
      return spelling;
  return std::nullopt;
}

Error quantized(const std::string &name, const TensorCollection::Found &stored, std::string how) {
  return userError("import.quantized_unsupported",
                   fmt::format("tensor \"{}\" is stored as \"{}\", {}", name, stored.entry->name,
                               std::move(how)))
      .at({stored.file->path(), 0, 0})
      .withGiven(stored.entry->dtype)
      .withRule("initial weights are F32, BF16, F16 or F64")
      .suggest("dequantise the files to bfloat16 first, or train from scratch without --init");
}

/// `import.quantized_unsupported` if the files hold `name` in a packed form alone: blocks of
/// few bits and their scales, as mxfp4 is published.
Status checkNotPacked(const TensorCollection &files, const std::string &name) {
  for (const char *ending : {"_blocks", "_scales"})
    if (auto stored = spellingIn(files, name + ending))
      return quantized(name, *files.find(*stored), "a block format such as mxfp4");
  return {};
}

/// `import.tied_conflict` if two tensors of the files differ in shape or value.
Status checkTied(const TensorCollection &files, const std::string &first,
                 const std::string &second) {
  const auto a = files.find(first), b = files.find(second);
  auto conflict = [&](std::string how) {
    return userError("import.tied_conflict",
                     fmt::format("\"{}\" and \"{}\" are one tied tensor of this model, but the "
                                 "files hold two that differ: {}",
                                 first, second, how))
        .withRule("tied weights are stored once, or as equal copies")
        .suggest(fmt::format("delete \"{}\" from the file, or set tie_word_embeddings to false and "
                             "compile again",
                             second));
  };
  if (a->entry->shape != b->entry->shape)
    return conflict(fmt::format("shapes [{}] and [{}]", fmt::join(a->entry->shape, ", "),
                                fmt::join(b->entry->shape, ", ")));
  std::vector<float> left(longestRun), right(longestRun);
  const uint64_t total = a->entry->elements();
  for (uint64_t at = 0; at < total; at += longestRun) {
    const size_t count = std::min<uint64_t>(longestRun, total - at);
    CLEAVE_RT_RETURN_IF_ERROR(a->file->readFloats(*a->entry, at, std::span(left).first(count)));
    CLEAVE_RT_RETURN_IF_ERROR(b->file->readFloats(*b->entry, at, std::span(right).first(count)));
    for (size_t i = 0; i < count; ++i)
      if (!(left[i] == right[i]))
        return conflict(fmt::format("element {} is {} and {}", at + i, left[i], right[i]));
  }
  return {};
}

/// `import.not_finite` if a number read from `tensor` is infinite or none at all.
Status checkFinite(const TensorCollection::Found &tensor, int64_t first,
                   std::span<const float> values) {
  const auto bad = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  if (bad == values.end())
    return {};
  return userError("import.not_finite",
                   fmt::format("element {} of tensor \"{}\" is {}", first + (bad - values.begin()),
                               tensor.entry->name, *bad))
      .at({tensor.file->path(), 0, 0})
      .withGiven(fmt::format("{}", *bad))
      .withRule("initial weights are finite numbers")
      .suggest("weights of a run that had not diverged");
}

/// Runs `fill(run)` for all runs of a parameter on the pool; the first error.
template <typename Fill>
Status eachRunOnPool(const Program &program, const StateEntry &entry, int64_t rank,
                     ThreadPool &pool, Fill fill) {
  const std::vector<StateRun> runs = runsOf(program, entry, rank, longestRun);
  // Short runs share a task.
  const int64_t average = runs.empty() ? 1 : std::max<int64_t>(1, runs.front().count);
  const int64_t group = std::max<int64_t>(1, longestRun / average);
  const int64_t tasks = (static_cast<int64_t>(runs.size()) + group - 1) / group;
  std::mutex mutex;
  Status first;
  CLEAVE_RT_RETURN_IF_ERROR(runTasks(pool, tasks, [&](int64_t task, unsigned) {
    const size_t end = std::min<size_t>(runs.size(), (task + 1) * group);
    for (size_t i = task * group; i < end; ++i)
      if (Status status = fill(runs[i]); !status.ok()) {
        std::lock_guard<std::mutex> lock(mutex);
        if (first.ok())
          first = status;
        return;
      }
  }));
  return first;
}

} // namespace

StatusOr<InitialWeights> InitialWeights::open(const std::string &path, const Image &image) {
  CLEAVE_RT_ASSIGN_OR_RETURN(TensorCollection files, TensorCollection::open(path));
  InitialWeights weights(std::move(files));
  CLEAVE_RT_RETURN_IF_ERROR(weights.resolve(image, path));
  return weights;
}

/// The name under which the files hold tensor `index` of `entry`, checked.
StatusOr<std::string> InitialWeights::resolveTensor(const StateEntry &entry, int64_t index,
                                                    const std::string &path,
                                                    std::set<std::string> &used) const {
  const std::string own = entry.fileName(index);
  std::vector<std::string> found;
  if (auto spelling = spellingIn(files, own))
    found.push_back(*spelling);
  for (const std::string &alias : entry.aliases)
    if (auto spelling = spellingIn(files, alias))
      found.push_back(*spelling);
  if (found.empty()) {
    CLEAVE_RT_RETURN_IF_ERROR(checkNotPacked(files, own));
    Error error =
        userError("import.missing_tensor", fmt::format("the weights lack tensor \"{}\"", own))
            .at({path, 0, 0})
            .withRule("every parameter of the model is in the files; nothing is made "
                      "up beside given weights");
    if (auto nearest = nearestName(own, files.names()))
      error.suggestions.push_back(fmt::format("the nearest name there is \"{}\"", *nearest));
    else
      error.suggestions.push_back("the weights of the config the binary was compiled for");
    return error;
  }
  for (const std::string &name : found) {
    used.insert(name);
    const auto tensor = files.find(name);
    if (tensor->entry->dtype.starts_with("F8_"))
      return quantized(own, *tensor, "8-bit numbers that others scale");
    if (tensor->entry->shape != entry.fileShape)
      return userError("import.shape_mismatch",
                       fmt::format("tensor \"{}\" has shape [{}], the model needs [{}]", name,
                                   fmt::join(tensor->entry->shape, ", "),
                                   fmt::join(entry.fileShape, ", ")))
          .at({tensor->file->path(), 0, 0})
          .withGiven(fmt::format("[{}]", fmt::join(tensor->entry->shape, ", ")))
          .withRule("shapes are those of the config the binary was compiled for")
          .suggest("the weights of that config, or a binary compiled from theirs");
    if (name != found.front())
      CLEAVE_RT_RETURN_IF_ERROR(checkTied(files, found.front(), name));
  }
  return found.front();
}

Status InitialWeights::resolve(const Image &image, const std::string &path) {
  std::set<std::string> used;
  for (const Image::Tensor &tensor : image.tensors())
    for (int64_t i = 0; i < tensor.entry->fileTensors(); ++i) {
      CLEAVE_RT_ASSIGN_OR_RETURN(std::string name, resolveTensor(*tensor.entry, i, path, used));
      names[tensor.entry->fileName(i)] = std::move(name);
    }
  for (const std::string &name : files.names())
    if (!used.contains(name))
      unusedNames.push_back(name);
  return {};
}

/// `visit(tensor, at, part)` for the parts of a run of elements of `entry`, by the tensor
/// that holds them in files, `at` being the first one's index in that.
template <typename Visit>
static Status forEachTensorOf(const StateEntry &entry, int64_t first, std::span<float> run,
                              Visit visit) {
  const int64_t each = elementCount(entry.fileShape);
  while (!run.empty()) {
    const int64_t tensor = first / each, at = first % each;
    const auto part = run.first(std::min<size_t>(run.size(), each - at));
    CLEAVE_RT_RETURN_IF_ERROR(visit(tensor, at, part));
    first += static_cast<int64_t>(part.size());
    run = run.subspan(part.size());
  }
  return {};
}

/// Elements of an entry from `first` on.
Status InitialWeights::loadRun(const StateEntry &entry, int64_t first, std::span<float> out) const {
  return forEachTensorOf(
      entry, first, out, [&](int64_t index, int64_t at, std::span<float> part) -> Status {
        const auto tensor = files.find(names.at(entry.fileName(index)));
        CLEAVE_RT_RETURN_IF_ERROR(tensor->file->readFloats(*tensor->entry, at, part));
        return checkFinite(*tensor, at, part);
      });
}

Status InitialWeights::load(const Program &program, int64_t rank, const RankMemory &memory,
                            ThreadPool &pool) const {
  for (const StateEntry &entry : program.state) {
    float *value = memory.floats(*entry.slot(Slot::Value));
    CLEAVE_RT_RETURN_IF_ERROR(eachRunOnPool(program, entry, rank, pool, [&](const StateRun &run) {
      return loadRun(entry, run.global, {value + run.local, static_cast<size_t>(run.count)});
    }));
  }
  return {};
}

/// The numbers of a tensor in files depend on its own name and place alone.
Status generateWeights(const Program &program, int64_t rank, uint64_t seed,
                       const RankMemory &memory, ThreadPool &pool) {
  for (const StateEntry &entry : program.state) {
    std::vector<NormalNumbers> numbers;
    for (int64_t i = 0; i < entry.fileTensors(); ++i)
      numbers.emplace_back(seed, entry.fileName(i));
    const Initial initial = entry.initial;
    float *value = memory.floats(*entry.slot(Slot::Value));
    CLEAVE_RT_RETURN_IF_ERROR(eachRunOnPool(program, entry, rank, pool, [&](const StateRun &run) {
      const std::span<float> out(value + run.local, static_cast<size_t>(run.count));
      if (initial.std == 0) {
        std::ranges::fill(out, static_cast<float>(initial.mean));
        return Status::success();
      }
      return forEachTensorOf(
          entry, run.global, out, [&](int64_t index, int64_t at, std::span<float> part) -> Status {
            numbers[static_cast<size_t>(index)].fill(at, initial.mean, initial.std, part);
            return {};
          });
    }));
  }
  return {};
}

} // namespace cleave::rt

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

Status InitialWeights::resolve(const Image &image, const std::string &path) {
  const std::vector<std::string> present = files.names();
  std::set<std::string> used;
  for (const Image::Tensor &tensor : image.tensors()) {
    const StateEntry &entry = *tensor.entry;
    std::vector<std::string> found;
    if (auto spelling = spellingIn(files, entry.name))
      found.push_back(*spelling);
    for (const std::string &alias : entry.aliases)
      if (auto spelling = spellingIn(files, alias))
        found.push_back(*spelling);
    if (found.empty()) {
      Error error = userError("import.missing_tensor",
                              fmt::format("the weights lack tensor \"{}\"", entry.name))
                        .at({path, 0, 0})
                        .withRule("every parameter of the model is in the files; nothing is made "
                                  "up beside given weights");
      if (auto nearest = nearestName(entry.name, present))
        error.suggestions.push_back(fmt::format("the nearest name there is \"{}\"", *nearest));
      else
        error.suggestions.push_back("the weights of the config the binary was compiled for");
      return error;
    }
    for (const std::string &name : found) {
      used.insert(name);
      const auto inFile = files.find(name);
      if (inFile->entry->shape != entry.fileShape)
        return userError("import.shape_mismatch",
                         fmt::format("tensor \"{}\" has shape [{}], the model needs [{}]", name,
                                     fmt::join(inFile->entry->shape, ", "),
                                     fmt::join(entry.fileShape, ", ")))
            .at({inFile->file->path(), 0, 0})
            .withGiven(fmt::format("[{}]", fmt::join(inFile->entry->shape, ", ")))
            .withRule("shapes are those of the config the binary was compiled for")
            .suggest("the weights of that config, or a binary compiled from theirs");
      if (name != found.front())
        CLEAVE_RT_RETURN_IF_ERROR(checkTied(files, found.front(), name));
    }
    names[entry.name] = found.front();
  }
  for (const std::string &name : present)
    if (!used.contains(name))
      unusedNames.push_back(name);
  return {};
}

Status InitialWeights::load(const Program &program, int64_t rank, const RankMemory &memory,
                            ThreadPool &pool) const {
  for (const StateEntry &entry : program.state) {
    const auto tensor = files.find(names.at(entry.name));
    float *value = memory.floats(*entry.slot(Slot::Value));
    CLEAVE_RT_RETURN_IF_ERROR(eachRunOnPool(program, entry, rank, pool, [&](const StateRun &run) {
      const std::span<float> out(value + run.local, static_cast<size_t>(run.count));
      CLEAVE_RT_RETURN_IF_ERROR(tensor->file->readFloats(*tensor->entry, run.global, out));
      return checkFinite(*tensor, run.global, out);
    }));
  }
  return {};
}

Status generateWeights(const Program &program, int64_t rank, uint64_t seed,
                       const RankMemory &memory, ThreadPool &pool) {
  for (const StateEntry &entry : program.state) {
    const NormalNumbers numbers(seed, entry.name);
    const Initial initial = entry.initial;
    float *value = memory.floats(*entry.slot(Slot::Value));
    CLEAVE_RT_RETURN_IF_ERROR(eachRunOnPool(program, entry, rank, pool, [&](const StateRun &run) {
      const std::span<float> out(value + run.local, static_cast<size_t>(run.count));
      if (initial.std == 0)
        std::ranges::fill(out, static_cast<float>(initial.mean));
      else
        numbers.fill(run.global, initial.mean, initial.std, out);
      return Status::success();
    }));
  }
  return {};
}

} // namespace cleave::rt

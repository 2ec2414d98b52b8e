// Opening, verifying and reading checkpoints.
#include "runtime/Checkpoint/Checkpoint.h"

#include "runtime/Base/Suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

namespace cleave::rt {

namespace fs = std::filesystem;

StatusOr<Checkpoint> Checkpoint::open(const std::string &folder, bool checkData) {
  Checkpoint checkpoint;
  checkpoint.path = folder;
  const std::string manifestPath = folder + "/manifest.json";
  StatusOr<std::string> text = readWholeFile(manifestPath);
  if (!text.ok())
    return runError("checkpoint.bad_manifest", text.error().message).at({folder});
  CLEAVE_RT_ASSIGN_OR_RETURN(checkpoint.manifest, parseManifest(*text, manifestPath));
  CLEAVE_RT_RETURN_IF_ERROR(checkCoverage(checkpoint.manifest, manifestPath));
  for (const StoredShard &shard : checkpoint.manifest.shards) {
    const std::string shardPath = folder + "/" + shard.file;
    StatusOr<SafeTensorsFile> file = SafeTensorsFile::open(shardPath);
    if (!file.ok())
      return runError("checkpoint.bad_shard", file.error().message).at({shardPath});
    std::error_code failed;
    const uint64_t size = fs::file_size(shardPath, failed);
    if (failed || size != shard.bytes)
      return runError("checkpoint.bad_shard", fmt::format("'{}' has {} bytes; the manifest says {}",
                                                          shardPath, size, shard.bytes))
          .at({shardPath});
    checkpoint.shards.push_back(std::move(*file));
  }
  if (checkData)
    CLEAVE_RT_RETURN_IF_ERROR(checkpoint.verifyPieces());
  return checkpoint;
}

Status Checkpoint::verifyPieces() const {
  for (const StoredTensor &tensor : manifest.tensors)
    for (const StoredPiece &piece : tensor.pieces) {
      const SafeTensorsFile &file = shards[piece.shard];
      const TensorEntry *entry = file.find(piece.key);
      const bool sound = entry && entry->dtype == "F32" && entry->shape == piece.box.extent;
      const bool matches = sound && crc32c(file.bytes(*entry)) == piece.checksum;
      if (sound)
        file.releasePages(*entry);
      if (!matches)
        return runError("checkpoint.bad_shard",
                        fmt::format("'{}' {}", piece.key,
                                    sound ? "does not match its checksum"
                                          : "is not what the manifest says"))
            .at({file.path()});
    }
  return Status::success();
}

const StoredTensor *Checkpoint::find(std::string_view name, StateKind kind) const {
  const auto found = std::ranges::find_if(manifest.tensors, [&](const StoredTensor &tensor) {
    return tensor.kind == kind && tensor.name == name;
  });
  return found == manifest.tensors.end() ? nullptr : &*found;
}

Status Checkpoint::readBox(std::string_view name, StateKind kind, const Shape &shape,
                           const Box &box, std::span<float> out) const {
  const StoredTensor *tensor = find(name, kind);
  if (!tensor) {
    std::vector<std::string> names;
    for (const StoredTensor &other : manifest.tensors)
      if (other.kind == kind)
        names.push_back(other.name);
    Error error = userError("checkpoint.missing_state",
                            fmt::format("the checkpoint has no {} of '{}'", nameOf(kind), name))
                      .at({path})
                      .withRule("parameters and both moments of every trained tensor are saved");
    if (const auto nearest = nearestName(name, names))
      error.suggestions.push_back(*nearest);
    else
      error.suggestions.push_back("a binary compiled from the config of that run");
    return error;
  }
  if (tensor->shape != shape)
    return userError("checkpoint.shape_mismatch",
                     fmt::format("'{}' has shape {} in the checkpoint and {} here", name,
                                 Box::whole(tensor->shape).toString(),
                                 Box::whole(shape).toString()))
        .at({path})
        .withRule("a checkpoint goes on with the model that it was saved from")
        .suggest("a binary compiled from the config of that run")
        .suggest("--checkpoint with another folder");
  if (!box.isInside(shape) || out.size() != box.volume())
    return internalError(
        fmt::format("box {} of '{}' into {} elements", box.toString(), name, out.size()));
  const std::vector<int64_t> outStrides = rowMajorStrides(box.extent);
  for (const StoredPiece &piece : tensor->pieces) {
    if (piece.box.empty() || box.empty())
      continue;
    const std::optional<Box> common = intersection(piece.box, box);
    const TensorEntry *entry = common ? shards[piece.shard].find(piece.key) : nullptr;
    if (!common)
      continue;
    if (!entry || entry->shape != piece.box.extent || entry->dtype != "F32")
      return runError("checkpoint.bad_shard",
                      fmt::format("'{}' is not what the manifest says", piece.key))
          .at({shards[piece.shard].path()});
    const std::byte *data = shards[piece.shard].bytes(*entry).data();
    forEachRun(*common, piece.box, rowMajorStrides(piece.box.extent), box, outStrides,
               [&](int64_t from, int64_t to, int64_t count) {
                 std::memcpy(out.data() + to, data + from * int64_t{sizeof(float)},
                             static_cast<size_t>(count) * sizeof(float));
               });
    shards[piece.shard].releasePages(*entry);
    CLEAVE_RT_RETURN_IF_ERROR(shards[piece.shard].checkRead());
  }
  return Status::success();
}

/// N of "step-N", or nothing.
static std::optional<uint64_t> stepOfName(std::string_view name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix) || name.size() == prefix.size())
    return std::nullopt;
  uint64_t step = 0;
  const char *last = name.data() + name.size();
  const auto result = std::from_chars(name.data() + prefix.size(), last, step);
  if (result.ec != std::errc() || result.ptr != last)
    return std::nullopt;
  return step;
}

StatusOr<CheckpointSearch> findNewestCheckpoint(const std::string &folder) {
  CheckpointSearch search;
  std::error_code ignored;
  if (!fs::exists(folder, ignored))
    return search;
  CLEAVE_RT_ASSIGN_OR_RETURN(const std::vector<std::string> names, listFolder(folder));
  std::vector<std::pair<uint64_t, std::string>> steps;
  for (const std::string &name : names) {
    const std::string path = folder + "/" + name;
    if (const std::optional<uint64_t> step = stepOfName(name))
      steps.emplace_back(*step, path);
    else if (name.starts_with("step-"))
      search.skipped.push_back(
          {path, runError("checkpoint.unfinished", fmt::format("'{}' was never published", path))
                     .at({path})});
  }
  std::ranges::sort(steps, std::greater<>());
  for (const auto &[step, path] : steps) {
    StatusOr<Checkpoint> checkpoint = Checkpoint::open(path);
    if (checkpoint.ok() && checkpoint->state().step == step) {
      search.newest = std::move(*checkpoint);
      break;
    }
    search.skipped.push_back(
        {path, checkpoint.ok()
                   ? runError("checkpoint.bad_manifest",
                              fmt::format("'{}' holds step {}", path, checkpoint->state().step))
                   : checkpoint.error()});
  }
  return search;
}

} // namespace cleave::rt

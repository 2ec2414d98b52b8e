// The steps of a save.
#include "runtime/Checkpoint/CheckpointWriter.h"

#include "runtime/Base/Files.h"
#include "runtime/Checkpoint/SafeTensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

namespace cleave::rt {

namespace fs = std::filesystem;

namespace {

const char *const writeFailed = "checkpoint.write_failed";

std::string shardName(const SaveTarget &target, uint32_t rank) {
  return fmt::format("shard-{:05}-of-{:05}.safetensors", rank, target.ranks);
}

std::string recordPath(const SaveTarget &target, uint32_t rank) {
  return fmt::format("{}/shard-{:05}.json", target.asidePath(), rank);
}

/// Name of a piece in its file: readable, and unique by kind, tensor and box.
std::string keyOf(const StatePiece &piece) {
  const std::string name = fmt::format("{}:{}", nameOf(piece.kind), piece.tensor);
  return piece.box == Box::whole(piece.shape) ? name : name + piece.box.toString();
}

Status removeTree(const std::string &path) {
  std::error_code failed;
  fs::remove_all(path, failed);
  if (failed)
    return systemError(writeFailed, fmt::format("cannot remove '{}'", path), failed.value());
  return Status::success();
}

Status renameFolder(const std::string &from, const std::string &to) {
  if (std::rename(from.c_str(), to.c_str()) != 0)
    return systemError(writeFailed, fmt::format("cannot rename '{}' to '{}'", from, to), errno);
  return Status::success();
}

Error asWriteError(Error error) {
  if (error.kind.starts_with("file."))
    error.kind = writeFailed;
  error.exitCode = ExitCode::Run;
  return error;
}

/// Sends the elements of `piece` to the writer, row by row if it is strided.
Status appendPiece(SafeTensorsWriter &writer, const StatePiece &piece) {
  const uint64_t volume = piece.box.volume();
  const std::vector<int64_t> packed = rowMajorStrides(piece.box.extent);
  if (piece.strides.empty() || piece.strides == packed)
    return writer.append(std::span(piece.data, volume));
  Status status;
  const bool rowsArePacked = piece.strides.back() == 1;
  if (!rowsArePacked)
    return internalError(fmt::format("the rows of '{}' are not packed", piece.tensor));
  forEachRun(piece.box, piece.box, piece.strides, piece.box, packed,
             [&](int64_t from, int64_t, int64_t count) {
               if (status.ok())
                 status = writer.append(std::span(piece.data + from, static_cast<size_t>(count)));
             });
  return status;
}

Status checkPieces(const std::vector<StatePiece> &pieces) {
  for (const StatePiece &piece : pieces) {
    const bool stridesFit = piece.strides.empty() || piece.strides.size() == piece.shape.size();
    if (!volumeOf(piece.shape) || !piece.box.isInside(piece.shape) || !stridesFit ||
        (!piece.data && piece.box.volume() > 0))
      return internalError(
          fmt::format("piece {} of '{}' is not a part of it", piece.box.toString(), piece.tensor));
  }
  return Status::success();
}

/// The record of what `writer` stored, grouped by tensor.
std::vector<StoredTensor> describe(const SafeTensorsWriter &writer,
                                   const std::vector<const StatePiece *> &inOrder) {
  std::vector<StoredTensor> tensors;
  for (size_t i = 0; i < inOrder.size(); ++i) {
    const StatePiece &piece = *inOrder[i];
    auto same = std::ranges::find_if(tensors, [&](const StoredTensor &tensor) {
      return tensor.kind == piece.kind && tensor.name == piece.tensor;
    });
    if (same == tensors.end())
      same = tensors.insert(tensors.end(), {piece.tensor, piece.kind, piece.shape, {}});
    same->pieces.push_back({0, writer.tensors()[i].name, piece.box, writer.checksums()[i]});
  }
  return tensors;
}

} // namespace

std::string SaveTarget::finalPath() const { return fmt::format("{}/step-{}", folder, step); }
std::string SaveTarget::asidePath() const { return finalPath() + ".tmp"; }

Status prepareSave(const SaveTarget &target) {
  target.reached(SavePoint::Begin);
  CLEAVE_RT_RETURN_IF_ERROR(removeTree(target.asidePath()));
  if (Status made = createFolders(target.asidePath()); !made.ok())
    return asWriteError(made.error());
  return Status::success();
}

Status writeShard(const SaveTarget &target, const std::vector<StatePiece> &given) {
  CLEAVE_RT_RETURN_IF_ERROR(checkPieces(given));
  // Short shards leave some ranks with nothing of a tensor.
  std::vector<StatePiece> pieces;
  std::ranges::copy_if(given, std::back_inserter(pieces),
                       [](const StatePiece &piece) { return !piece.box.empty(); });
  std::vector<TensorPlan> plans;
  uint64_t total = 0;
  for (const StatePiece &piece : pieces) {
    plans.push_back({keyOf(piece), FloatType::F32, piece.box.extent});
    total += piece.box.volume();
  }
  const std::string path = target.asidePath() + "/" + shardName(target, target.rank);
  CLEAVE_RT_ASSIGN_OR_RETURN(
      SafeTensorsWriter writer,
      SafeTensorsWriter::create(path, plans, {{"format", "cleave"}}, writeFailed));
  // The writer has sorted the names; the data must follow them.
  std::vector<const StatePiece *> inOrder;
  for (const StatePiece &piece : pieces)
    inOrder.push_back(&piece);
  std::ranges::sort(inOrder, {}, [](const StatePiece *piece) { return keyOf(*piece); });
  uint64_t written = 0;
  for (const StatePiece *piece : inOrder) {
    const bool crossesMiddle =
        written < total - total / 2 && written + piece->box.volume() >= total - total / 2;
    CLEAVE_RT_RETURN_IF_ERROR(appendPiece(writer, *piece));
    written += piece->box.volume();
    if (crossesMiddle && target.hook) {
      CLEAVE_RT_RETURN_IF_ERROR(writer.flush());
      target.reached(SavePoint::MidShard);
    }
  }
  CLEAVE_RT_RETURN_IF_ERROR(writer.commit());
  target.reached(SavePoint::AfterShard);
  const StoredShard shard{shardName(target, target.rank), writer.bytesWritten()};
  const std::string record = shardRecordText(shard, describe(writer, inOrder));
  if (Status put = writeFileAtomically(recordPath(target, target.rank), record); !put.ok())
    return asWriteError(put.error());
  return Status::success();
}

Status publish(const SaveTarget &target, RunState state) {
  Manifest manifest;
  state.step = target.step;
  state.ranks = target.ranks;
  manifest.state = std::move(state);
  for (uint32_t rank = 0; rank < target.ranks; ++rank) {
    const std::string path = recordPath(target, rank);
    StatusOr<std::string> record = readWholeFile(path);
    if (!record.ok())
      return asWriteError(record.error());
    CLEAVE_RT_RETURN_IF_ERROR(addShardRecord(manifest, *record, path));
  }
  CLEAVE_RT_RETURN_IF_ERROR(checkCoverage(manifest, target.asidePath()));
  for (uint32_t rank = 0; rank < target.ranks; ++rank)
    CLEAVE_RT_RETURN_IF_ERROR(removeTree(recordPath(target, rank)));

  target.reached(SavePoint::BeforeManifest);
  const std::string manifestPath = target.asidePath() + "/manifest.json";
  if (Status put = writeFileAtomically(manifestPath, toText(manifest)); !put.ok())
    return asWriteError(put.error());
  target.reached(SavePoint::BeforePublish);
  // A folder of this step can be there only if the run went back past it; it
  // steps aside so that the rename has room, and goes when the new one stands.
  const std::string replaced = target.finalPath() + ".replaced";
  std::error_code ignored;
  const bool replaces = fs::exists(target.finalPath(), ignored);
  if (replaces) {
    CLEAVE_RT_RETURN_IF_ERROR(removeTree(replaced));
    CLEAVE_RT_RETURN_IF_ERROR(renameFolder(target.finalPath(), replaced));
  }
  CLEAVE_RT_RETURN_IF_ERROR(renameFolder(target.asidePath(), target.finalPath()));
  CLEAVE_RT_RETURN_IF_ERROR(syncFolder(target.folder, writeFailed));
  target.reached(SavePoint::AfterPublish);
  return replaces ? removeTree(replaced) : Status::success();
}

void abandonSave(const SaveTarget &target) {
  // The failure that led here is the one worth reporting.
  std::error_code ignored;
  fs::remove_all(target.asidePath(), ignored);
}

} // namespace cleave::rt

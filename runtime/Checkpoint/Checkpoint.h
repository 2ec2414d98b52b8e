// Reading checkpoints: finding the newest one that is whole, and assembling any
// box of any tensor from the pieces it was saved in, so that any layout can
// continue from any other.
#pragma once

#include "runtime/Checkpoint/Manifest.h"
#include "runtime/Checkpoint/SafeTensors.h"

#include <optional>
#include <string>
#include <vector>

namespace cleave::rt {

class Checkpoint {
public:
  /// Opens the folder `step-N` and verifies manifest, sizes, coverage and, with
  /// `checkData`, the checksum of every piece. Kinds: `checkpoint.bad_manifest`,
  /// `checkpoint.version_unsupported`, `checkpoint.bad_shard`,
  /// `checkpoint.incomplete`.
  static StatusOr<Checkpoint> open(const std::string &folder, bool checkData = true);

  const std::string &folder() const { return path; }
  const RunState &state() const { return manifest.state; }
  const std::vector<StoredTensor> &tensors() const { return manifest.tensors; }
  const StoredTensor *find(std::string_view name, StateKind kind) const;

  /// Box `box` of a tensor into `out`, packed row-major. `checkpoint.missing_state`
  /// names a tensor that is not there, `checkpoint.shape_mismatch` one whose
  /// global shape is not `shape`.
  Status readBox(std::string_view name, StateKind kind, const Shape &shape, const Box &box,
                 std::span<float> out) const;

private:
  Status verifyPieces() const;
  std::string path;
  Manifest manifest;
  std::vector<SafeTensorsFile> shards;
};

/// A folder that was passed over, and why.
struct SkippedCheckpoint {
  std::string path;
  Error reason;
};

struct CheckpointSearch {
  std::optional<Checkpoint> newest;
  std::vector<SkippedCheckpoint> skipped;
};

/// The newest complete checkpoint of a `--checkpoint` folder; none if the
/// folder does not exist or holds none. Unfinished and damaged ones are listed.
/// `file.read_failed` if the folder can't be read.
StatusOr<CheckpointSearch> findNewestCheckpoint(const std::string &folder);

} // namespace cleave::rt

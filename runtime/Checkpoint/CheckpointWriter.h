// Saving a checkpoint so that a kill at any moment leaves either the old ones
// or the old ones and the new one. Steps, with the ranks meeting between them:
//
//   rank 0      prepareSave    makes `step-N.tmp`, clearing what an earlier kill left
//   every rank  writeShard     its pieces into one safetensors file, fsynced, and
//                              a record of them
//   rank 0      publish        checks that every element is there once, writes the
//                              manifest, fsyncs, renames to `step-N`, fsyncs the parent
//
// If a step fails on any rank, rank 0 calls `abandonSave` and training goes on
// or stops as the caller decides; older checkpoints are never touched. How the
// ranks meet and agree is the caller's business, and so is who saves a value
// that several ranks hold: exactly one of them must.
#pragma once

#include "runtime/Base/Status.h"
#include "runtime/Checkpoint/Manifest.h"

#include <functional>
#include <string>
#include <vector>

namespace cleave::rt {

/// Moments of a save, for tests that kill the process there.
enum class SavePoint {
  Begin,
  MidShard,
  AfterShard,
  BeforeManifest,
  BeforePublish,
  AfterPublish,
};
using SaveHook = std::function<void(SavePoint)>;

/// A box of a tensor as it lies in memory.
struct StatePiece {
  std::string tensor;
  StateKind kind = StateKind::Parameter;
  Shape shape;
  Box box;
  const float *data = nullptr;
  /// Strides in elements; empty means packed row-major.
  std::vector<int64_t> strides;
};

/// Where one save takes place.
struct SaveTarget {
  /// The `--checkpoint` folder.
  std::string folder;
  uint64_t step = 0;
  uint32_t rank = 0;
  uint32_t ranks = 1;
  SaveHook hook;

  std::string asidePath() const;
  std::string finalPath() const;
  void reached(SavePoint point) const {
    if (hook)
      hook(point);
  }
};

/// Write failures are `checkpoint.write_failed` with path, bytes and reason.
Status prepareSave(const SaveTarget &target);
/// Empty pieces are left out.
Status writeShard(const SaveTarget &target, const std::vector<StatePiece> &pieces);
Status publish(const SaveTarget &target, RunState state);
/// Removes the unfinished folder, as far as it can.
void abandonSave(const SaveTarget &target);

} // namespace cleave::rt

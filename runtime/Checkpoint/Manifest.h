// What a checkpoint says of itself: the state of the run that is not a tensor,
// and where every piece of every tensor lies, in global coordinates. Stored as
// `manifest.json`, written last; a folder without a manifest that verifies is
// no checkpoint. Format version 1:
//
//   {"format": "cleave-checkpoint", "version": 1, "crc32c": "…",
//    "body": {"state": {…}, "shards": [{"file", "bytes"}],
//             "tensors": [{"name", "kind", "shape",
//                          "pieces": [{"shard", "key", "offset", "extent", "crc32c"}]}]}}
//
// The checksum is that of the body as our writer prints it.
#pragma once

#include "runtime/Base/Json.h"
#include "runtime/Checkpoint/Box.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cleave::rt {

/// Parameters and the two moments of the optimizer.
enum class StateKind { Parameter, FirstMoment, SecondMoment };

/// "param", "moment1", "moment2".
const char *nameOf(StateKind kind);

/// Everything of a run that is no tensor. Randomness is counter-based, so the
/// seed and the counts are all of it.
struct RunState {
  /// Optimizer steps done.
  uint64_t step = 0;
  /// Sequences consumed: the data position.
  uint64_t samples = 0;
  uint64_t seed = 0;
  /// Ranks that wrote it (any number may read it).
  uint32_t ranks = 1;
  /// The recipe as it was in force, schedule included.
  JsonValue recipe = JsonValue::object();
  std::string planHash;
  std::string dataDigest;
  /// Name and version of the program that wrote it.
  std::string program;
};

struct StoredPiece {
  uint32_t shard = 0;
  /// Name of the tensor in the shard file.
  std::string key;
  Box box;
  uint32_t checksum = 0;
};

struct StoredTensor {
  std::string name;
  StateKind kind = StateKind::Parameter;
  Shape shape;
  std::vector<StoredPiece> pieces;
};

struct StoredShard {
  std::string file;
  uint64_t bytes = 0;
};

struct Manifest {
  RunState state;
  std::vector<StoredShard> shards;
  std::vector<StoredTensor> tensors;
};

std::string toText(const Manifest &manifest);
/// `checkpoint.bad_manifest` for anything that is not exactly such a file, or
/// whose checksum differs; `checkpoint.version_unsupported` for a newer one.
StatusOr<Manifest> parseManifest(const std::string &text, const std::string &path);

/// Every tensor is covered exactly once by its pieces; `checkpoint.incomplete`
/// names the first that is not.
Status checkCoverage(const Manifest &manifest, const std::string &path);

/// The pieces of one rank, as JSON; how ranks tell rank 0 what they wrote.
std::string shardRecordText(const StoredShard &shard, const std::vector<StoredTensor> &tensors);
/// Reads one and adds it to `manifest`, whose next shard it becomes.
Status addShardRecord(Manifest &manifest, const std::string &text, const std::string &path);

} // namespace cleave::rt

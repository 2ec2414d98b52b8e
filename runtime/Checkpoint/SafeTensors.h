// The safetensors format: an 8-byte length, a JSON header, then the data of
// every tensor without gaps. The reader maps the file and believes nothing of
// it: lengths, offsets, shapes and names are checked with overflow-safe
// arithmetic before any byte of data is touched. The writer streams, one tensor
// after the other, in the order the reference implementation uses.
//
// Kinds: `safetensors.truncated`, `safetensors.bad_header`,
// `safetensors.unknown_dtype`, `safetensors.bad_offsets` (holes, overlaps,
// sizes that don't match shapes), `safetensors.duplicate_name`,
// `safetensors.not_float`, `safetensors.missing_tensor`,
// `safetensors.index_mismatch`.
#pragma once

#include "runtime/Base/Files.h"
#include "runtime/Base/Json.h"
#include "runtime/Checkpoint/Box.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cleave::rt {

struct TensorEntry {
  std::string name;
  /// As the file says it: "F32", "BF16", …
  std::string dtype;
  Shape shape;
  /// Bytes [begin, end) of the data part.
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t elements() const { return volumeOf(shape).value_or(0); }
};

class SafeTensorsFile {
public:
  static StatusOr<SafeTensorsFile> open(const std::string &path);

  const std::string &path() const { return file.path(); }
  /// In the order of their data.
  const std::vector<TensorEntry> &tensors() const { return entries; }
  const TensorEntry *find(std::string_view name) const;
  /// The `__metadata__` pairs.
  const std::vector<std::pair<std::string, std::string>> &metadata() const { return pairs; }

  std::span<const std::byte> bytes(const TensorEntry &entry) const;
  /// Lets go of the tensor's pages (see MappedFile); `readFloats` and `readBox`
  /// do so themselves, so that reading a model costs no memory beyond its copy.
  void releasePages(const TensorEntry &entry) const { file.releasePages(bytes(entry)); }
  /// Behind a look at `bytes`, as MappedFile's.
  Status checkRead() const { return file.checkRead(); }
  /// Elements first … first + out.size() - 1, row-major, as float. F32, BF16,
  /// F16 and F64 can be read so; others are `safetensors.not_float`.
  Status readFloats(const TensorEntry &entry, uint64_t first, std::span<float> out) const;
  /// A box of the tensor into `out`, packed row-major (box.volume() floats).
  Status readBox(const TensorEntry &entry, const Box &box, std::span<float> out) const;

private:
  explicit SafeTensorsFile(MappedFile file) : file(std::move(file)) {}
  Status parseHeader();
  Status parseEntry(const JsonMember &member, uint64_t dataBytes);
  Status checkCoverage(uint64_t dataBytes);

  MappedFile file;
  uint64_t dataStart = 0;
  std::vector<TensorEntry> entries;
  /// Indices into `entries`, by name.
  std::vector<uint32_t> byName;
  std::vector<std::pair<std::string, std::string>> pairs;
};

/// A model's tensors, in one file or in shards under an index.
class TensorCollection {
public:
  /// `path` is a `.safetensors` file, a `.safetensors.index.json`, or a folder
  /// with `model.safetensors` or `model.safetensors.index.json`. With an index,
  /// every tensor must be in the file it names (`safetensors.index_mismatch`).
  static StatusOr<TensorCollection> open(const std::string &path);

  struct Found {
    const SafeTensorsFile *file;
    const TensorEntry *entry;
  };
  std::optional<Found> find(std::string_view name) const;
  /// All names, sorted.
  std::vector<std::string> names() const;
  /// As SafeTensorsFile's; `safetensors.missing_tensor` with the nearest name.
  Status readBox(std::string_view name, const Box &box, std::span<float> out) const;

private:
  std::vector<SafeTensorsFile> files;
};

enum class FloatType { F32, BF16 };

struct TensorPlan {
  std::string name;
  FloatType type = FloatType::F32;
  Shape shape;
};

class SafeTensorsWriter {
public:
  /// Fixes names, types and shapes, sorted as the reference writer does (wider
  /// types first, then by name); `tensors()` is the order in which data must be
  /// appended. `errorKind` is the kind of write failures.
  static StatusOr<SafeTensorsWriter>
  create(const std::string &path, std::vector<TensorPlan> tensors,
         const std::vector<std::pair<std::string, std::string>> &metadata,
         const std::string &errorKind);

  const std::vector<TensorPlan> &tensors() const { return plans; }
  /// Appends elements of the current tensor, converting if it is BF16 (round to
  /// nearest even). May be called piecewise; a tensor ends when it is full.
  Status append(std::span<const float> values);
  /// CRC-32C of the stored bytes of each finished tensor.
  const std::vector<uint32_t> &checksums() const { return sums; }
  /// Makes what was appended so far visible in the (unpublished) file.
  Status flush() { return file.flush(); }
  uint64_t bytesWritten() const { return file.bytesWritten(); }
  Status commit();

private:
  SafeTensorsWriter(AtomicFileWriter file, std::vector<TensorPlan> plans)
      : file(std::move(file)), plans(std::move(plans)) {}
  void finishFullTensors();

  AtomicFileWriter file;
  std::vector<TensorPlan> plans;
  std::vector<uint32_t> sums;
  uint64_t filled = 0;
  uint32_t runningSum = 0;
};

/// Bits of one element of a safetensors dtype; nothing if it is unknown.
std::optional<unsigned> dtypeBits(std::string_view dtype);

uint16_t toBFloat16(float value);
float fromBFloat16(uint16_t bits);

} // namespace cleave::rt

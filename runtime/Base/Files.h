// Files as the runtime needs them: owned descriptors and mappings, whole-file
// reads, and writes that appear under their name complete or not at all.
// No directory walking beyond listing names, no path algebra beyond the
// standard library's.
#pragma once

#include "runtime/Base/LostPages.h"
#include "runtime/Base/Status.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::rt {

/// An open file, closed when it goes out of scope.
class FileDescriptor {
public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor(descriptor) {}
  FileDescriptor(FileDescriptor &&other) noexcept : descriptor(other.release()) {}
  FileDescriptor &operator=(FileDescriptor &&other) noexcept;
  ~FileDescriptor();

  int get() const { return descriptor; }
  bool valid() const { return descriptor >= 0; }
  int release();

private:
  int descriptor = -1;
};

/// A whole file mapped read-only. Empty files are valid and have no bytes.
class MappedFile {
public:
  /// `file.read_failed` if it can't be opened or mapped, or is no regular file.
  static StatusOr<MappedFile> open(const std::string &path);
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data, length}; }
  size_t size() const { return length; }
  /// `file.read_failed` if something was read that the file no longer has, since it was cut
  /// or its device failed. To be asked behind each read; what was read is zeros then.
  Status checkRead() const;
  const std::string &path() const { return name; }
  /// Lets go of the pages under `part` (and a little around it): they stop
  /// counting as this process's resident memory and come back from the page
  /// cache when touched again. Safe while other threads read.
  void releasePages(std::span<const std::byte> part) const;
  /// Tells the kernel that the file will be read from front to back.
  void adviseSequential() const;

private:
  MappedFile() = default;
  const std::byte *data = nullptr;
  size_t length = 0;
  std::string name;
  LostPages lost;
};

/// The contents of a regular file; `file.read_failed` otherwise.
StatusOr<std::string> readWholeFile(const std::string &path);

/// Appends to a file that only appears under its name when `commit` succeeds:
/// written as `<path>.tmp-<process>-<n>` in the same folder, fsynced, renamed,
/// and the folder fsynced. Dropped without `commit`, it leaves nothing behind.
/// Links are followed to what they name. What is there and is no regular file (a
/// device, a pipe) is written in place, since a rename would put a file in its place.
/// Failures are `<kind>` as given to `create`, with path, bytes and reason.
class AtomicFileWriter {
public:
  static StatusOr<AtomicFileWriter> create(const std::string &path,
                                           const std::string &errorKind = "file.write_failed");
  AtomicFileWriter(AtomicFileWriter &&other) noexcept;
  AtomicFileWriter &operator=(AtomicFileWriter &&) = delete;
  ~AtomicFileWriter();

  Status append(std::span<const std::byte> bytes);
  Status append(std::string_view text);
  uint64_t bytesWritten() const { return written; }
  /// Hands what was appended so far to the kernel (it stays unpublished).
  Status flush();
  Status commit();

private:
  AtomicFileWriter() = default;
  FileDescriptor file;
  std::string finalPath;
  std::string asidePath;
  std::string errorKind;
  std::vector<std::byte> buffer;
  uint64_t written = 0;
};

/// The path of the file behind symbolic links, whether or not it is there yet.
std::string throughLinks(const std::string &path);

/// Writes `text` to `path` atomically.
Status writeFileAtomically(const std::string &path, std::string_view text);

/// Writes all of `bytes` at the descriptor's position, resuming after partial
/// writes and interrupts. `path` and `kind` are for the error.
Status writeFully(int descriptor, std::span<const std::byte> bytes, const std::string &path,
                  const std::string &kind);

/// Flushes a file's or a folder's entry to the device.
Status syncDescriptor(int descriptor, const std::string &path, const std::string &kind);
Status syncFolder(const std::string &path, const std::string &kind = "file.write_failed");

/// Creates the folder and its parents; succeeds if it is there.
Status createFolders(const std::string &path);

/// Creates the folder and tries whether a file can be made in it, so that a long
/// run learns at its start what would fail at its end. Failures are `<kind>`.
Status checkFolderTakesFiles(const std::string &path, const std::string &kind);

/// Takes a folder for this process until the descriptor is closed; nothing if
/// another process holds it. File systems without locks let everybody have it.
StatusOr<std::optional<FileDescriptor>> lockFolder(const std::string &path);

/// Opens /dev/null on standard streams that the caller has closed. Otherwise the
/// next file that is opened would take such a stream's place, and what is printed
/// would land in it. To be called first in a program.
void keepStandardStreamsOpen();

/// Names in a folder, sorted; `file.read_failed` if it can't be read.
StatusOr<std::vector<std::string>> listFolder(const std::string &path);

/// CRC-32C (Castagnoli, as in iSCSI: crc32c("123456789") = 0xE3069283).
/// `seed` is the value of the bytes before, so that a file can be summed in
/// pieces; 0 at the start.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t seed = 0);

} // namespace cleave::rt

// Descriptors, mappings, atomic writes.
#include "runtime/Base/Files.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cleave::rt {

FileDescriptor &FileDescriptor::operator=(FileDescriptor &&other) noexcept {
  FileDescriptor old(descriptor);
  descriptor = other.release();
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (valid())
    ::close(descriptor);
}

int FileDescriptor::release() { return std::exchange(descriptor, -1); }

/// Opens a regular file for reading and tells its size.
static StatusOr<FileDescriptor> openForReading(const std::string &path, size_t &size) {
  // Without O_NONBLOCK a FIFO would wait here for somebody who writes to it.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info = {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0) {
    const int reason = errno;
    Error error = systemError("file.read_failed", fmt::format("cannot open '{}'", path), reason);
    error.exitCode = ExitCode::User;
    error.given = path;
    return error;
  }
  if (!S_ISREG(info.st_mode))
    return userError("file.read_failed", fmt::format("'{}' is not a regular file", path))
        .withGiven(path)
        .withRule("input is read from regular files, not from folders, pipes or devices")
        .suggest(S_ISDIR(info.st_mode) ? "name a file in that folder"
                                       : "write it into a file first");
  size = static_cast<size_t>(info.st_size);
  return file;
}

StatusOr<MappedFile> MappedFile::open(const std::string &path) {
  MappedFile mapped;
  mapped.name = path;
  CLEAVE_RT_ASSIGN_OR_RETURN(FileDescriptor file, openForReading(path, mapped.length));
  if (mapped.length == 0)
    return mapped;
  void *address = ::mmap(nullptr, mapped.length, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED)
    return systemError("file.read_failed", fmt::format("cannot map '{}'", path), errno);
  mapped.data = static_cast<const std::byte *>(address);
  mapped.lost = LostPages(address, mapped.length);
  return mapped;
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : data(std::exchange(other.data, nullptr)), length(std::exchange(other.length, 0)),
      name(std::move(other.name)), lost(std::move(other.lost)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  MappedFile old(std::move(*this));
  data = std::exchange(other.data, nullptr);
  length = std::exchange(other.length, 0);
  name = std::move(other.name);
  lost = std::move(other.lost);
  return *this;
}

Status MappedFile::checkRead() const {
  if (!lost.found())
    return Status::success();
  return userError("file.read_failed",
                   fmt::format("'{}' lost some of its {} bytes while it was read", name, length))
      .at({name})
      .withGiven(name)
      .withRule("files are left as they are while a program reads them")
      .suggest("put the whole file back, and try again (--resume goes on from a checkpoint)");
}

MappedFile::~MappedFile() {
  // While the place is still ours.
  lost = {};
  if (data)
    ::munmap(const_cast<std::byte *>(data), length);
}

void MappedFile::releasePages(std::span<const std::byte> part) const {
  if (part.empty())
    return;
  // A fault maps its neighbours too, in aligned windows of this size.
  constexpr size_t window = 64 << 10;
  const auto base = reinterpret_cast<uintptr_t>(data);
  const auto first = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t begin = std::max(base, first / window * window);
  const uintptr_t end = (first + part.size() + window - 1) / window * window;
  const size_t count = std::min(end - begin, base + length - begin);
  // Mappings start on a page, windows are whole pages, so `begin` is aligned.
  ::madvise(const_cast<std::byte *>(data) + (begin - base), count, MADV_DONTNEED);
}

void MappedFile::adviseSequential() const {
  if (data)
    ::madvise(const_cast<std::byte *>(data), length, MADV_SEQUENTIAL);
}

StatusOr<std::string> readWholeFile(const std::string &path) {
  size_t size = 0;
  CLEAVE_RT_ASSIGN_OR_RETURN(FileDescriptor file, openForReading(path, size));
  std::string text;
  text.resize(size + 1); // one more, to notice a file that grows
  size_t filled = 0;
  while (true) {
    if (filled == text.size())
      text.resize(text.size() * 2);
    const ssize_t got = ::read(file.get(), text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return systemError("file.read_failed", fmt::format("cannot read '{}'", path), errno);
    if (got == 0)
      break;
    filled += static_cast<size_t>(got);
  }
  text.resize(filled);
  return text;
}

Status writeFully(int descriptor, std::span<const std::byte> bytes, const std::string &path,
                  const std::string &kind) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return systemError(
          kind, fmt::format("cannot write {} bytes to '{}' ({} written)", bytes.size(), path, done),
          errno);
    done += static_cast<size_t>(put);
  }
  return Status::success();
}

Status syncDescriptor(int descriptor, const std::string &path, const std::string &kind) {
  if (::fsync(descriptor) != 0)
    return systemError(kind, fmt::format("cannot flush '{}' to its device", path), errno);
  return Status::success();
}

Status syncFolder(const std::string &path, const std::string &kind) {
  FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid())
    return systemError(kind, fmt::format("cannot open the folder '{}'", path), errno);
  return syncDescriptor(folder.get(), path, kind);
}

Status createFolders(const std::string &path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed)
    return systemError("file.write_failed", fmt::format("cannot create the folder '{}'", path),
                       failed.value());
  return Status::success();
}

Status checkFolderTakesFiles(const std::string &path, const std::string &kind) {
  if (Status made = createFolders(path); !made.ok()) {
    Error error = made.error();
    error.kind = kind;
    return error;
  }
  // Dropped without a commit, it leaves nothing behind.
  return AtomicFileWriter::create(path + "/probe", kind).status();
}

StatusOr<std::optional<FileDescriptor>> lockFolder(const std::string &path) {
  FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid())
    return systemError("file.read_failed", fmt::format("cannot open the folder '{}'", path), errno);
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    return std::optional<FileDescriptor>(std::move(folder));
  return std::optional<FileDescriptor>();
}

void keepStandardStreamsOpen() {
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0)
      // For reading alone: what is written to it is refused, not lost.
      (void)::open("/dev/null", O_RDONLY);
}

StatusOr<std::vector<std::string>> listFolder(const std::string &path) {
  std::error_code failed;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator it(path, failed), end; !failed && it != end;
       it.increment(failed))
    names.push_back(it->path().filename().string());
  if (failed)
    return systemError("file.read_failed", fmt::format("cannot list the folder '{}'", path),
                       failed.value());
  std::ranges::sort(names);
  return names;
}

static std::string folderOf(const std::string &path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string throughLinks(const std::string &path) {
  constexpr int mostLinks = 40; // as many as the kernel follows
  std::filesystem::path at(path);
  std::error_code failed;
  // Links of /dev and /proc to what is open have targets that are no paths.
  if (std::filesystem::exists(at, failed) && !std::filesystem::is_regular_file(at, failed))
    return path;
  for (int link = 0; link < mostLinks && std::filesystem::is_symlink(at, failed); ++link) {
    const std::filesystem::path target = std::filesystem::read_symlink(at, failed);
    if (failed)
      break;
    at = target.is_absolute() ? target : at.parent_path() / target;
  }
  return at.string();
}

StatusOr<AtomicFileWriter> AtomicFileWriter::create(const std::string &given,
                                                    const std::string &errorKind) {
  AtomicFileWriter writer;
  const std::string path = throughLinks(given);
  writer.finalPath = path;
  writer.errorKind = errorKind;
  struct stat info = {};
  const bool isThere = ::stat(path.c_str(), &info) == 0;
  if (isThere && S_ISDIR(info.st_mode))
    return systemError(errorKind, fmt::format("cannot write '{}'", path), EISDIR);
  if (isThere && !S_ISREG(info.st_mode)) {
    writer.file = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (writer.file.valid())
      return writer;
    return systemError(errorKind, fmt::format("cannot write '{}'", path), errno);
  }
  // Two writers of one path, in this process or another, must not share the
  // file aside: the first free name is taken exclusively.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    writer.asidePath = fmt::format("{}.tmp-{}-{}", path, ::getpid(), attempt);
    writer.file = FileDescriptor(
        ::open(writer.asidePath.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (writer.file.valid())
      return writer;
    if (errno != EEXIST)
      break;
  }
  Error error = systemError(errorKind, fmt::format("cannot create '{}'", path), errno);
  writer.asidePath.clear();
  return error;
}

AtomicFileWriter::AtomicFileWriter(AtomicFileWriter &&other) noexcept
    : file(std::move(other.file)), finalPath(std::move(other.finalPath)),
      asidePath(std::exchange(other.asidePath, {})), errorKind(std::move(other.errorKind)),
      buffer(std::move(other.buffer)), written(other.written) {}

AtomicFileWriter::~AtomicFileWriter() {
  if (!asidePath.empty())
    ::unlink(asidePath.c_str());
}

Status AtomicFileWriter::append(std::span<const std::byte> bytes) {
  constexpr size_t bufferLimit = 1 << 20;
  written += bytes.size();
  if (buffer.size() + bytes.size() <= bufferLimit) {
    buffer.insert(buffer.end(), bytes.begin(), bytes.end());
    return Status::success();
  }
  CLEAVE_RT_RETURN_IF_ERROR(flush());
  if (bytes.size() < bufferLimit) {
    buffer.assign(bytes.begin(), bytes.end());
    return Status::success();
  }
  return writeFully(file.get(), bytes, finalPath, errorKind);
}

Status AtomicFileWriter::append(std::string_view text) {
  return append(std::as_bytes(std::span(text.data(), text.size())));
}

Status AtomicFileWriter::flush() {
  CLEAVE_RT_RETURN_IF_ERROR(writeFully(file.get(), buffer, finalPath, errorKind));
  buffer.clear();
  return Status::success();
}

Status AtomicFileWriter::commit() {
  CLEAVE_RT_RETURN_IF_ERROR(flush());
  if (asidePath.empty()) // a device or a pipe, written in place
    return Status::success();
  CLEAVE_RT_RETURN_IF_ERROR(syncDescriptor(file.get(), finalPath, errorKind));
  if (::rename(asidePath.c_str(), finalPath.c_str()) != 0)
    return systemError(errorKind, fmt::format("cannot rename to '{}'", finalPath), errno);
  asidePath.clear();
  return syncFolder(folderOf(finalPath), errorKind);
}

Status writeFileAtomically(const std::string &path, std::string_view text) {
  CLEAVE_RT_ASSIGN_OR_RETURN(AtomicFileWriter writer, AtomicFileWriter::create(path));
  CLEAVE_RT_RETURN_IF_ERROR(writer.append(text));
  return writer.commit();
}

} // namespace cleave::rt

// Linux's files in memory.
#include "runtime/Base/MemoryFile.h"

#include <fmt/format.h>

#include <sys/mman.h>

#include <cerrno>

namespace cleave::rt {

StatusOr<MemoryFile> MemoryFile::of(const char *name, std::string_view bytes) {
  MemoryFile made;
  made.file = FileDescriptor(::memfd_create(name, MFD_CLOEXEC));
  if (!made.file.valid())
    return systemError("file.write_failed", fmt::format("cannot make room for {}", name), errno);
  made.path = fmt::format("/proc/self/fd/{}", made.file.get());
  CLEAVE_RT_RETURN_IF_ERROR(
      writeFully(made.file.get(), std::as_bytes(std::span(bytes)), made.path, "file.write_failed"));
  return made;
}

} // namespace cleave::rt

// A file that only this process has: what a library that a binary carries is loaded from.
#pragma once

#include "runtime/Base/Files.h"

#include <string>
#include <string_view>

namespace cleave::rt {

/// Holds `bytes` as long as `file` is open, under `path`; of two that are open none has the path
/// of the other.
struct MemoryFile {
  FileDescriptor file;
  std::string path;

  /// `name` is for people who look at the process. `file.write_failed` without memory for it.
  static StatusOr<MemoryFile> of(const char *name, std::string_view bytes);
};

} // namespace cleave::rt

//===- Output.cpp - Files that a subcommand is asked to write ----------------===//

#include "Output.h"

#include "runtime/Base/Files.h"
#include "llvm/Support/Signals.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include <unistd.h>

namespace cleave::tool {

namespace fs = std::filesystem;

/// A name that does not work is the request's fault, not the machine's.
static rt::Error asRequest(rt::Error error, const std::string &path) {
  error.given = path;
  error.exitCode = rt::ExitCode::User;
  return error;
}

rt::Status checkOutput(const std::string &path, std::span<const std::string> inputs,
                       const std::string &kind) {
  std::error_code failed;
  for (const std::string &input : inputs)
    if (fs::equivalent(path, input, failed) && !failed)
      return rt::userError("usage.bad_value", fmt::format("'{}' is an input too", path))
          .withGiven("-o " + path)
          .withRule("an output does not replace what it is made from")
          .suggest("-o with another name");
  const std::string target = rt::throughLinks(path);
  if (path.ends_with('/') || fs::is_directory(target, failed))
    return asRequest(rt::systemError(kind, fmt::format("cannot write '{}'", path), EISDIR), path);
  if (fs::exists(target, failed) && !fs::is_regular_file(target, failed))
    return rt::Status::success(); // opening a pipe to try it would wait for a reader
  rt::StatusOr<rt::AtomicFileWriter> tried = rt::AtomicFileWriter::create(path, kind);
  return tried.ok() ? rt::Status::success() : asRequest(tried.error(), path);
}

rt::Status checkOutputFolder(const std::string &path) {
  rt::Status tried = rt::checkFolderTakesFiles(path, "file.write_failed");
  return tried.ok() ? tried : asRequest(tried.error(), path);
}

rt::Status writeAside(const std::string &path,
                      const std::function<rt::Status(const std::string &)> &write) {
  const std::string target = rt::throughLinks(path);
  std::error_code failed;
  const bool replaces = fs::exists(target, failed);
  if (replaces && !fs::is_regular_file(target, failed))
    return rt::userError("file.write_failed", fmt::format("'{}' is no regular file", path))
        .withGiven("-o " + path)
        .withRule("a binary is written into a regular file")
        .suggest("-o train");
  const std::string aside = fmt::format("{}.tmp-{}", target, ::getpid());
  std::string ignored;
  llvm::sys::RemoveFileOnSignal(aside, &ignored);
  rt::Status status = write(aside);
  if (status.ok() && std::rename(aside.c_str(), target.c_str()) != 0)
    status =
        rt::systemError("file.write_failed", fmt::format("cannot rename to '{}'", path), errno);
  llvm::sys::DontRemoveFileOnSignal(aside);
  if (!status.ok())
    fs::remove(aside, failed);
  return status;
}

} // namespace cleave::tool

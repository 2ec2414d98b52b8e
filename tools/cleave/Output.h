//===- Output.h - Files that a subcommand is asked to write ------------------===//
//
// What can be known of an output before the work for it is done: that its name
// can be written, and that it is not one of the inputs. A binary appears under its
// name whole or not at all, like all our files.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Base/Status.h"

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <span>
#include <string>

namespace cleave::tool {

/// Refuses a name that is a folder, whose folder is absent or takes no files
/// (`kind`), or that is one of `inputs` (`usage.bad_value`). Nothing is left behind.
rt::Status checkOutput(const std::string &path, std::span<const std::string> inputs,
                       const std::string &kind = "file.write_failed");

/// The same for a folder of outputs, which is made where it is absent.
rt::Status checkOutputFolder(const std::string &path);

/// Has `write` make a file aside and gives it the name `path` once it is whole.
/// The file aside goes with a failure, and with a signal that ends the process.
rt::Status writeAside(const std::string &path,
                      const std::function<rt::Status(const std::string &aside)> &write);

/// Writes to standard error what is worth knowing and no result. That it cannot be
/// written is no failure.
template <typename... Args> void tell(fmt::format_string<Args...> text, Args &&...args) {
  std::fputs(fmt::format(text, std::forward<Args>(args)...).c_str(), stderr);
}

} // namespace cleave::tool

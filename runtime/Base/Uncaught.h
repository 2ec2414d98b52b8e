// Exceptions as errors. Libraries throw where the machine has no memory or no thread left; from
// a thread of its own, nobody catches what they throw.
#pragma once

#include "runtime/Base/Status.h"

#include <exception>
#include <string_view>

namespace cleave::rt {

/// What an exception says, and what may be done: `runtime.no_threads` (exit 3) where a thread
/// was refused, `runtime.out_of_memory` (exit 4) where memory was, else `internal`: "WHO threw: …".
Error errorOf(const std::exception_ptr &thrown, std::string_view who);

/// From here on an exception that nobody catches ends the process with an error on standard error
/// and its exit code, in place of an abort. As JSON if --json is among the arguments.
void reportUncaught(int argc, const char *const *argv);

} // namespace cleave::rt

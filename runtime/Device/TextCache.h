// What was compiled from a text at the first start, kept under its content in the folder
// that CLEAVE_CACHE names, else in $XDG_CACHE_HOME/cleave or ~/.cache/cleave.
#pragma once

#include "runtime/Base/FunctionRef.h"
#include "runtime/Base/Status.h"

#include <string>

namespace cleave::rt {

/// What `make` makes of `source` for `target`, from the cache if it is there of the same source.
/// The cache only saves time: what can't be read or written there is passed over. Files are written
/// whole or not at all.
StatusOr<std::string> compiledOnce(const std::string &target, const std::string &source,
                                   FunctionRef<StatusOr<std::string>()> make);

} // namespace cleave::rt

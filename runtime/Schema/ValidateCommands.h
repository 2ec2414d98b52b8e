// The part of `validate` that looks at commands, and the region check both use.
// Private to runtime/Schema.
#pragma once

#include "runtime/Schema/Program.h"

#include <string>

namespace cleave::rt {

/// `region` lies inside its segment, starts at a multiple of `alignment` bytes
/// and doesn't move; `image.region` otherwise, naming `owner`.
Status checkRegion(const Program &program, const Region &region, int64_t alignment,
                   const std::string &owner);

/// `image.command` or `image.region`, naming entry, index and label.
Status validateCommands(const Program &program);

} // namespace cleave::rt

// Opening the MPI plugin. A training binary carries it inside, so that it can be
// copied anywhere; it is opened only when several processes were launched.
#pragma once

#include "runtime/Base/Status.h"
#include "runtime/Comm/Transport.h"

#include <string_view>

namespace cleave::rt {

/// Opens the plugin of the file `path` if that is not null, else the one whose bytes
/// are `embedded`, and joins the processes. `runtime.transport_missing` (exit 3) if
/// there is none, or it or its MPI can't be opened here.
StatusOr<CleaveTransport> openTransport(const char *path, std::string_view embedded);

} // namespace cleave::rt

// From bytes or a path to a table of functions.
#include "runtime/Comm/MPI/LoadPlugin.h"

#include "runtime/Base/MemoryFile.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace cleave::rt {

static Error missing(std::string message) {
  return missingError("runtime.transport_missing", std::move(message))
      .withRule("ranks in several processes need an MPI plugin that fits this machine's MPI");
}

StatusOr<CleaveTransport> openTransport(const char *path, std::string_view embedded) {
  MemoryFile memory;
  std::string name = path ? path : "";
  if (!path) {
    if (embedded.empty())
      return missing("this binary was made without MPI")
          .suggest("install libopenmpi-dev, run scripts/build, and compile the model again")
          .suggest("--transport tcp, under Slurm or where MASTER_ADDR and MASTER_PORT are set")
          .suggest("start it once, without a launcher: its ranks are then threads");
    CLEAVE_RT_ASSIGN_OR_RETURN(memory, MemoryFile::of("libcleave_mpi.so", embedded));
    name = memory.path;
  }
  // Global, since MPI libraries open parts of their own that look for them so.
  void *library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    const char *reason = ::dlerror();
    return missing("the MPI plugin cannot be opened on this machine")
        .withGiven(reason ? reason : name)
        .suggest("install the MPI that Cleave was built with (Debian: openmpi-bin)")
        .suggest("CLEAVE_MPI_PLUGIN=FILE with a plugin built here, see docs/Formats.md")
        .suggest("--transport tcp, under Slurm or where MASTER_ADDR and MASTER_PORT are set");
  }
  const auto open = reinterpret_cast<CleaveOpenTransport>(::dlsym(library, "cleaveOpenTransport"));
  CleaveTransport transport = {};
  const int code = open ? open(cleaveTransportVersion, &transport) : -1;
  if (code == 0)
    return transport;
  if (code == -1)
    return missing("the MPI plugin is of another version of Cleave").withGiven(name);
  return missing("MPI could not be started").withGiven(fmt::format("MPI's code {}", code));
}

} // namespace cleave::rt

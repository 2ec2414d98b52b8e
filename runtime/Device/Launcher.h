// What launches the kernels of a GPU on one rank. A device makes it; the executor asks it
// once for each launch, and runs what it is given any number of times.
#pragma once

#include "runtime/Base/Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cleave::rt {

struct GridLaunch {
  std::string kernel;
  int64_t blocks = 1;
  int64_t threads = 1;
  /// Addresses of the kernel's arguments, in order.
  std::vector<void *> args;
};

class KernelLauncher {
public:
  virtual ~KernelLauncher() = default;
  /// The launch, ready to run; `image.missing_kernel` if there is no such kernel.
  virtual StatusOr<std::function<Status()>> prepare(GridLaunch launch) = 0;
};

} // namespace cleave::rt

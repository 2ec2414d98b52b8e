// A GPU that is not there: the CUDA text of a program's kernels, compiled as plain C++
// with the shim of Simt.h and run on the processor, a fibre for each thread. Slow, and
// strict: warps run in an order of chance, shared memory begins as NaN, and a block in
// which no thread can go on is an error.
//
// The text is compiled at the first start by the system's C++ compiler and kept under its
// content in the folder that CLEAVE_CACHE names, else in $XDG_CACHE_HOME/cleave or
// ~/.cache/cleave. The kernels' global names (threadIdx, shared memory) are variables of
// the library, so each rank loads a copy of its own.
#pragma once

#include "runtime/Device/Launcher.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::rt {

class EmulatedDevice {
public:
  /// Compiles `text`, or finds it in the cache. Kinds: `device.compiler_missing` (exit 3)
  /// without a C++ compiler, `device.text_refused` where it refuses the text (ours).
  static StatusOr<EmulatedDevice> create(std::string_view text,
                                         const std::vector<std::string> &kernels);

  /// Kernels of one rank, whose warps run in an order that `seed` chooses.
  StatusOr<std::unique_ptr<KernelLauncher>> launcher(uint32_t seed) const;

private:
  /// The bytes of the library.
  std::string library;
};

} // namespace cleave::rt

// A GPU that is not there: the CUDA text of a program's kernels, compiled as plain C++
// with the shim of Simt.h and run on the processor, a fibre for each thread. Slow, and
// strict: warps run in an order of chance, shared memory begins as NaN, and a block in
// which no thread can go on is an error.
//
// The text is compiled at the first start by the system's C++ compiler (TextCache.h says where it
// is kept). The kernels' global names (threadIdx, shared memory) are variables of the library, so
// each rank loads a copy of its own.
#pragma once

#include "runtime/Device/Device.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::rt {

class EmulatedDevice : public Device {
public:
  /// Compiles `text`, or finds it in the cache. Kinds: `device.compiler_missing` (exit 3)
  /// without a C++ compiler; an internal error where it refuses the text.
  static StatusOr<std::unique_ptr<EmulatedDevice>> create(std::string_view text,
                                                          const std::vector<std::string> &kernels);

  /// Warps of each rank run in an order of their own.
  StatusOr<std::unique_ptr<RankDevice>> onRank(int64_t rank, int64_t place) override;
  std::string describe() const override { return "the emulated device"; }

private:
  /// The bytes of the library.
  std::string library;
};

} // namespace cleave::rt

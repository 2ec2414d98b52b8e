// Memory from the system, zeroed. Pages are only taken when first touched; large pieces ask
// for huge ones.
#pragma once

#include "runtime/Base/Status.h"

#include <cstddef>
#include <string>

namespace cleave::rt {

/// Anonymous zeroed memory that starts at a multiple of 64 (in fact of a page).
class ZeroedMemory {
public:
  /// `runtime.out_of_memory` with bytes and `what` if the system refuses.
  static StatusOr<ZeroedMemory> allocate(int64_t bytes, const std::string &what);
  ZeroedMemory() = default;
  ZeroedMemory(ZeroedMemory &&other) noexcept;
  ZeroedMemory &operator=(ZeroedMemory &&other) noexcept;
  ~ZeroedMemory();

  std::byte *data() const { return start; }
  int64_t size() const { return bytes; }

private:
  std::byte *start = nullptr;
  int64_t bytes = 0;
  size_t mapped = 0;
};

} // namespace cleave::rt

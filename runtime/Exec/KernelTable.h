// The kernels linked into a training binary, by name. The compiler emits one
// table; the image's kernel commands name its entries.
#pragma once

#include "runtime/Base/Status.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace cleave::rt {

/// Computes the iterations [begin, end) of a kernel's outer dimension. `args` are
/// the addresses of the command's regions, in order. May be called for disjoint
/// ranges from several threads at once; must not throw.
using KernelFunction = void (*)(void *const *args, int64_t begin, int64_t end);

struct KernelSymbol {
  const char *name;
  KernelFunction fn;
};

using KernelTable = std::span<const KernelSymbol>;

/// `image.missing_kernel` naming the symbol if the table has none of that name.
StatusOr<KernelFunction> findKernel(KernelTable table, std::string_view name);

} // namespace cleave::rt

// Look-up of kernels by name.
#include "runtime/Exec/KernelTable.h"

#include <fmt/format.h>

namespace cleave::rt {

StatusOr<KernelFunction> findKernel(KernelTable table, std::string_view name) {
  for (const KernelSymbol &symbol : table)
    if (name == symbol.name && symbol.fn)
      return symbol.fn;
  return userError("image.missing_kernel",
                   fmt::format("the program calls kernel \"{}\", which is not linked into this "
                               "binary",
                               name))
      .suggest("compile the model again: image and kernels do not belong together");
}

} // namespace cleave::rt

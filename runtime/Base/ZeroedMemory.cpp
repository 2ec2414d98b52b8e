// Private anonymous mappings.
#include "runtime/Base/ZeroedMemory.h"

#include <fmt/format.h>

#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace cleave::rt {

StatusOr<ZeroedMemory> ZeroedMemory::allocate(int64_t bytes, const std::string &what) {
  constexpr size_t hugePage = size_t(2) << 20;
  ZeroedMemory memory;
  memory.bytes = bytes;
  constexpr size_t page = 4096;
  memory.mapped = (static_cast<size_t>(bytes > 0 ? bytes : 1) + page - 1) / page * page;
  const bool large = memory.mapped >= 4 * hugePage;
  // Huge pages start at multiples of their size; the extra room is address
  // space only, since it is never touched.
  const size_t length = large ? memory.mapped + hugePage : memory.mapped;
  void *place = ::mmap(nullptr, length, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED)
    return systemError("runtime.out_of_memory",
                       fmt::format("cannot allocate {} bytes for {}", bytes, what), errno);
  memory.start = static_cast<std::byte *>(place);
  if (large) {
    auto at = reinterpret_cast<uintptr_t>(place);
    const size_t skip = (hugePage - at % hugePage) % hugePage;
    if (skip)
      ::munmap(place, skip);
    memory.start += skip;
    ::munmap(memory.start + memory.mapped, hugePage - skip);
    // Advice: where the system has none to give, small pages do.
    ::madvise(memory.start, memory.mapped, MADV_HUGEPAGE);
  }
  return memory;
}

ZeroedMemory::ZeroedMemory(ZeroedMemory &&other) noexcept
    : start(std::exchange(other.start, nullptr)), bytes(std::exchange(other.bytes, 0)),
      mapped(std::exchange(other.mapped, 0)) {}

ZeroedMemory &ZeroedMemory::operator=(ZeroedMemory &&other) noexcept {
  std::swap(start, other.start);
  std::swap(bytes, other.bytes);
  std::swap(mapped, other.mapped);
  return *this;
}

ZeroedMemory::~ZeroedMemory() {
  if (start)
    ::munmap(start, mapped);
}

} // namespace cleave::rt

// Segments as private anonymous mappings.
#include "runtime/Exec/RankMemory.h"

#include <fmt/format.h>

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
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

StatusOr<RankMemory> RankMemory::allocate(const Program &program) {
  RankMemory memory;
  for (const Segment &segment : program.segments) {
    // Copies too start at multiples of 64.
    const int64_t stride = segment.copies > 1 ? (segment.bytes + 63) / 64 * 64 : 0;
    CLEAVE_RT_ASSIGN_OR_RETURN(ZeroedMemory piece,
                               ZeroedMemory::allocate(segment.bytes + stride * (segment.copies - 1),
                                                      fmt::format("segment \"{}\"", segment.name)));
    memory.segments.push_back(std::move(piece));
    memory.copyStrides.push_back(stride);
  }
  return memory;
}

std::vector<int64_t> RankMemory::distancesTo(int64_t slot) const {
  std::vector<int64_t> distances;
  for (int64_t stride : copyStrides)
    distances.push_back(slot * stride);
  return distances;
}

int64_t RankMemory::totalBytes() const {
  int64_t total = 0;
  for (const ZeroedMemory &segment : segments)
    total += segment.size();
  return total;
}

namespace {

uint16_t roundToBFloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

void store(std::byte *at, DataType type, double value) {
  auto put = [&](auto stored) { std::memcpy(at, &stored, sizeof stored); };
  switch (type) {
  case DataType::F32:
    return put(static_cast<float>(value));
  case DataType::BF16:
    return put(roundToBFloat16(static_cast<float>(value)));
  case DataType::I32:
    return put(static_cast<int32_t>(value));
  case DataType::I64:
    return put(static_cast<int64_t>(value));
  }
}

struct ContentsFiller {
  const Program &program;
  const Constant &constant;
  int64_t rank;
  std::byte *at;

  void operator()(const Constant::Numbers &numbers) const {
    const int64_t width = elementBytes(constant.type);
    for (size_t i = 0; i < numbers.values.size(); ++i)
      store(at + static_cast<int64_t>(i) * width, constant.type, numbers.values[i]);
  }
  void operator()(const Constant::Bytes &bytes) const {
    std::memcpy(at, bytes.bytes.data(), bytes.bytes.size());
  }
  void operator()(const Constant::Iota &iota) const {
    const int64_t width = elementBytes(constant.type);
    for (int64_t i = 0; i < constant.region.bytes / width; ++i)
      store(at + i * width, constant.type, iota.start + iota.step * static_cast<double>(i));
  }
  void operator()(const Constant::BlockStart &start) const {
    store(at, constant.type,
          static_cast<double>(start.scale * program.mesh.indexOf(rank, start.axes)));
  }
};

} // namespace

void fillConstants(const Program &program, int64_t rank, const RankMemory &memory) {
  for (const Constant &constant : program.constants)
    std::visit(ContentsFiller{program, constant, rank, memory.address(constant.region)},
               constant.contents);
}

} // namespace cleave::rt

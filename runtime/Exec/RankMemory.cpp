// Segments, and what constants write into them.
#include "runtime/Exec/RankMemory.h"

#include <fmt/format.h>

#include <cstring>

namespace cleave::rt {

StatusOr<RankMemory> RankMemory::allocate(const Program &program, RankDevice *device) {
  RankMemory memory;
  for (const Segment &segment : program.segments) {
    // Copies too start at multiples of 64.
    const int64_t stride = segment.copies > 1 ? (segment.bytes + 63) / 64 * 64 : 0;
    const int64_t bytes = segment.bytes + stride * (segment.copies - 1);
    const std::string what = fmt::format("segment \"{}\"", segment.name);
    CLEAVE_RT_ASSIGN_OR_RETURN(DeviceBytes piece, device ? device->allocate(bytes, what)
                                                         : DeviceBytes::ofSystem(bytes, what));
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
  for (const DeviceBytes &segment : segments)
    total += segment.bytes;
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

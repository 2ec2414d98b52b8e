#include "runtime/Exec/Guard.h"

#include <cmath>
#include <cstring>

namespace cleave::rt {
namespace {

bool isNotFinite(const std::byte *at, DataType type) {
  uint32_t bits = 0;
  if (type == DataType::BF16) {
    uint16_t upper;
    std::memcpy(&upper, at, 2);
    bits = static_cast<uint32_t>(upper) << 16;
  } else {
    std::memcpy(&bits, at, 4);
  }
  return (bits & 0x7f800000) == 0x7f800000;
}

/// Calls `visit` with the offset of each element of `m` × `n` of each of the batch.
template <typename Visit> void eachElement(const MatmulCommand &product, Visit visit) {
  int64_t matrices = 1;
  for (const MatrixBatch &batch : product.batch)
    matrices *= batch.count;
  for (int64_t index = 0; index < matrices; ++index) {
    int64_t rest = index, first = 0;
    for (size_t d = product.batch.size(); d-- > 0;) {
      first += rest % product.batch[d].count * product.batch[d].strideC;
      rest /= product.batch[d].count;
    }
    for (int64_t i = 0; i < product.m; ++i)
      for (int64_t j = 0; j < product.n; ++j)
        visit(first + i * product.c.rowStride + j * product.c.columnStride);
  }
}

/// A NaN or infinity; minus infinity is what kernels mask with.
bool isBadInKernel(const std::byte *at, DataType type) {
  uint32_t bits = 0;
  std::memcpy(type == DataType::BF16 ? reinterpret_cast<std::byte *>(&bits) + 2
                                     : reinterpret_cast<std::byte *>(&bits),
              at, static_cast<size_t>(elementBytes(type)));
  return (bits & 0x7fffffff) > 0x7f800000 || bits == 0x7f800000;
}

/// Whether one of what the kernel writes, its last arguments, holds such a number.
bool writesBad(const KernelCommand &kernel, const RankMemory &memory) {
  const size_t first = kernel.args.size() - kernel.writes.size();
  for (size_t i = 0; i < kernel.writes.size(); ++i) {
    const DataType type = kernel.writes[i];
    if (type != DataType::F32 && type != DataType::BF16)
      continue;
    const Region &region = kernel.args[first + i];
    const std::byte *at = memory.address(region);
    const int64_t bytes = elementBytes(type);
    for (int64_t offset = 0; offset + bytes <= region.bytes; offset += bytes)
      if (isBadInKernel(at + offset, type))
        return true;
  }
  return false;
}

/// All of a region, whose rows lie one behind the other.
bool hasBad(const Region &region, const RankMemory &memory) {
  const std::byte *at = memory.address(region);
  for (int64_t i = 0; i + 4 <= region.bytes; i += 4)
    if (isNotFinite(at + i, DataType::F32))
      return true;
  return false;
}

} // namespace

bool hasBadResult(const Command &command, const RankMemory &memory) {
  if (const auto *kernel = std::get_if<KernelCommand>(&command.what))
    return writesBad(*kernel, memory);
  if (const auto *picked = std::get_if<PickedMatmulCommand>(&command.what))
    return hasBad(picked->c, memory);
  if (const auto *outer = std::get_if<PickedOuterCommand>(&command.what))
    return hasBad(outer->c, memory);
  const auto *product = std::get_if<MatmulCommand>(&command.what);
  if (!product)
    return false;
  const std::byte *at = memory.address(product->c.region);
  const int64_t bytes = elementBytes(product->resultType);
  bool bad = false;
  eachElement(*product, [&](int64_t element) {
    bad = bad || isNotFinite(at + element * bytes, product->resultType);
  });
  return bad;
}

} // namespace cleave::rt

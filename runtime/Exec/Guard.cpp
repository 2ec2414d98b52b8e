#include "runtime/Exec/Guard.h"

#include <cmath>
#include <cstring>

namespace cleave::rt {
namespace {

bool isBad(const std::byte *at, DataType type) {
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

/// All of a region, whose rows lie one behind the other.
bool hasBad(const Region &region, const RankMemory &memory) {
  const std::byte *at = memory.address(region);
  for (int64_t i = 0; i + 4 <= region.bytes; i += 4)
    if (isBad(at + i, DataType::F32))
      return true;
  return false;
}

} // namespace

bool hasBadResult(const Command &command, const RankMemory &memory) {
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
    bad = bad || isBad(at + element * bytes, product->resultType);
  });
  return bad;
}

} // namespace cleave::rt

// Element types of safetensors, and 16-bit floats.
#include "runtime/Checkpoint/SafeTensors.h"

#include <array>
#include <bit>
#include <cmath>

namespace cleave::rt {

std::optional<unsigned> dtypeBits(std::string_view dtype) {
  struct Row {
    std::string_view name;
    unsigned bits;
  };
  static constexpr std::array rows = {
      Row{"F4", 4},      Row{"F6_E2M3", 6},     Row{"F6_E3M2", 6},     Row{"BOOL", 8},
      Row{"U8", 8},      Row{"I8", 8},          Row{"F8_E5M2", 8},     Row{"F8_E4M3", 8},
      Row{"F8_E8M0", 8}, Row{"F8_E4M3FNUZ", 8}, Row{"F8_E5M2FNUZ", 8}, Row{"I16", 16},
      Row{"U16", 16},    Row{"F16", 16},        Row{"BF16", 16},       Row{"I32", 32},
      Row{"U32", 32},    Row{"F32", 32},        Row{"C64", 64},        Row{"F64", 64},
      Row{"I64", 64},    Row{"U64", 64},
  };
  for (const Row &row : rows)
    if (row.name == dtype)
      return row.bits;
  return std::nullopt;
}

uint16_t toBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  // A NaN whose payload sits in the lower half must not round to infinity.
  if (std::isnan(value))
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  const uint32_t roundUp = 0x7FFF + (bits >> 16 & 1);
  return static_cast<uint16_t>((bits + roundUp) >> 16);
}

float fromBFloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

} // namespace cleave::rt

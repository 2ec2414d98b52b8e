// Base64 of byte strings.
#include "runtime/Schema/Base64.h"

#include <array>
#include <cstdint>

namespace cleave::rt {
namespace {

constexpr std::string_view digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> makeValues() {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < digits.size(); ++i)
    values[static_cast<unsigned char>(digits[i])] = static_cast<int8_t>(i);
  return values;
}
constexpr std::array<int8_t, 256> valueOf = makeValues();

} // namespace

std::string toBase64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t have = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j)
      group = group << 8 | (j < have ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j)
      text += j <= have ? digits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::optional<std::string> fromBase64(std::string_view text) {
  if (text.size() % 4 != 0)
    return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    size_t have = 4;
    if (last && text[i + 3] == '=')
      have = text[i + 2] == '=' ? 2 : 3;
    uint32_t group = 0;
    for (size_t j = 0; j < 4; ++j) {
      const int value = j < have ? valueOf[static_cast<unsigned char>(text[i + j])] : 0;
      if (value < 0)
        return std::nullopt;
      group = group << 6 | static_cast<uint32_t>(value);
    }
    for (size_t j = 0; j + 1 < have; ++j)
      bytes += static_cast<char>(group >> (16 - 8 * j));
    // Bits beyond the last byte must be zero, so that every string has one form.
    if (have < 4 && (group & ((1u << (8 * (4 - have))) - 1)) != 0)
      return std::nullopt;
  }
  return bytes;
}

} // namespace cleave::rt

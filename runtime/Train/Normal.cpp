// Counter-based normal numbers.
#include "runtime/Train/Normal.h"

#include <cmath>
#include <numbers>

namespace cleave::rt {
namespace {

uint64_t splitmix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

double uniform(uint32_t low, uint32_t high) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32 | low) >> 11;
  return (static_cast<double>(bits) + 0.5) * 0x1p-53;
}

} // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

NormalNumbers::NormalNumbers(uint64_t seed, std::string_view name) {
  const uint64_t bits = splitmix(seed) ^ fnv1a(name);
  key = {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
}

std::array<double, 2> NormalNumbers::pairAt(uint64_t pair) const {
  const auto words =
      philox({static_cast<uint32_t>(pair), static_cast<uint32_t>(pair >> 32), 0, 0}, key);
  const double radius = std::sqrt(-2.0 * std::log(uniform(words[0], words[1])));
  const double angle = 2.0 * std::numbers::pi * uniform(words[2], words[3]);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

void NormalNumbers::fill(uint64_t first, double mean, double std, std::span<float> out) const {
  for (size_t i = 0; i < out.size();) {
    const uint64_t element = first + i;
    const std::array<double, 2> pair = pairAt(element / 2);
    for (uint64_t half = element % 2; half < 2 && i < out.size(); ++half, ++i)
      out[i] = static_cast<float>(mean + std * pair[half]);
  }
}

} // namespace cleave::rt

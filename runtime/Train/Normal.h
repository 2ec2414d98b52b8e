// Normal numbers as a pure function of (seed, name, element): what a parameter
// starts from when no weights are given. Independent of layout, threads and
// order, so any rank computes just its own block, and the same model starts the
// same on any mesh.
//
// Definition: Philox4x32-10 (Salmon et al., 2011) with key = splitmix64(seed) ⊕
// FNV-1a-64(name) (low word first) and counter = (j, j >> 32, 0, 0), where j =
// element / 2, gives four words w0 … w3. Two uniforms in (0, 1) are
// u1 = ((w1·2³² + w0) >> 11 + ½)·2⁻⁵³ and u2 from (w3, w2) alike; the normals of
// elements 2j and 2j + 1 are √(−2 ln u1) times cos 2πu2 and sin 2πu2, in double.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace cleave::rt {

/// One block of Philox4x32 with ten rounds.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

class NormalNumbers {
public:
  NormalNumbers(uint64_t seed, std::string_view name);

  /// mean + std · (number of element first + i) into out[i], rounded to float.
  void fill(uint64_t first, double mean, double std, std::span<float> out) const;

private:
  /// The numbers of elements 2·pair and 2·pair + 1.
  std::array<double, 2> pairAt(uint64_t pair) const;

  std::array<uint32_t, 2> key;
};

} // namespace cleave::rt

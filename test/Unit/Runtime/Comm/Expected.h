// What collectives give, by plain loops.
#pragma once

#include "runtime/Comm/Communicator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

using Buffers = std::vector<std::vector<float>>;

/// The same values on every call with the same arguments, of mixed magnitude so
/// that another order of summation shows.
inline Buffers randomBuffers(size_t ranks, size_t floats, unsigned seed) {
  std::mt19937 random(seed);
  Buffers buffers(ranks, std::vector<float>(floats));
  for (auto &buffer : buffers)
    for (float &value : buffer)
      value = std::ldexp(static_cast<float>(random() % 20011) - 10000.0f,
                         static_cast<int>(random() % 20) - 10);
  return buffers;
}

inline bool sameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

inline std::vector<float> reducedInOrder(const Buffers &buffers, cleave::rt::ReduceKind kind) {
  std::vector<float> result = buffers[0];
  for (size_t r = 1; r < buffers.size(); ++r)
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = kind == cleave::rt::ReduceKind::Sum ? result[i] + buffers[r][i]
                                                      : std::max(result[i], buffers[r][i]);
  return result;
}

inline std::vector<int> everyone(int ranks) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank)
    all.push_back(rank);
  return all;
}

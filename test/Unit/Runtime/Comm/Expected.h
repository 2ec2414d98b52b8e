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

/// One message of each kind with parts of these blocks: whether this rank has what calls
/// for each part alone would have given it.
inline cleave::rt::StatusOr<bool> exchangesInParts(cleave::rt::Communicator &group,
                                                   std::span<const size_t> blocks,
                                                   cleave::rt::ReduceKind reduction) {
  using namespace cleave::rt;
  const auto ranks = static_cast<size_t>(group.size()), self = static_cast<size_t>(group.rank());
  bool isRight = true;
  for (CollectiveKind kind :
       {CollectiveKind::AllGather, CollectiveKind::AllReduce, CollectiveKind::ReduceScatter}) {
    Buffers received, expected, sent;
    for (size_t block : blocks) {
      const Buffers all = randomBuffers(ranks, block * ranks, static_cast<unsigned>(block) + 5);
      const std::vector<float> sum = reducedInOrder(all, reduction);
      sent.push_back(all[self]);
      if (kind == CollectiveKind::ReduceScatter) {
        expected.emplace_back(sum.begin() + static_cast<std::ptrdiff_t>(self * block),
                              sum.begin() + static_cast<std::ptrdiff_t>((self + 1) * block));
      } else if (kind == CollectiveKind::AllReduce) {
        expected.push_back(sum);
      } else {
        sent.back().resize(block);
        expected.emplace_back();
        for (const std::vector<float> &each : all)
          expected.back().insert(expected.back().end(), each.begin(),
                                 each.begin() + static_cast<std::ptrdiff_t>(block));
      }
      received.emplace_back(expected.back().size(), NAN);
    }
    std::vector<MessagePart> parts;
    for (size_t i = 0; i < blocks.size(); ++i)
      parts.push_back(kind == CollectiveKind::AllReduce ? MessagePart{sent[i], sent[i]}
                                                        : MessagePart{sent[i], received[i]});
    CLEAVE_RT_RETURN_IF_ERROR(group.exchange(kind, reduction, parts));
    for (size_t i = 0; i < blocks.size(); ++i)
      isRight = isRight &&
                sameBits(kind == CollectiveKind::AllReduce ? sent[i] : received[i], expected[i]);
  }
  return isRight;
}

// Making token files of every layout byte by byte, from the published layouts.
#pragma once

#include "runtime/Base/Files.h"

#include <cstring>
#include <string>
#include <vector>

template <typename T> std::string bytesOf(const std::vector<T> &values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty())
    std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T> std::vector<T> countingIds(size_t count, size_t modulus) {
  std::vector<T> ids(count);
  for (size_t i = 0; i < count; ++i)
    ids[i] = static_cast<T>(i % modulus);
  return ids;
}

inline std::string llmcHeader(int32_t magic, int32_t version, int32_t count) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return bytesOf(header);
}

inline std::string megatronIndex(uint8_t dtype, const std::vector<int32_t> &lengths,
                                 const std::vector<int64_t> &offsets) {
  const std::vector<int64_t> documents = {0, static_cast<int64_t>(lengths.size())};
  std::string bytes("MMIDIDX\0\0", 9);
  bytes += bytesOf<uint64_t>({1});
  bytes += static_cast<char>(dtype);
  bytes += bytesOf<uint64_t>({lengths.size(), documents.size()});
  return bytes + bytesOf(lengths) + bytesOf(offsets) + bytesOf(documents);
}

inline void put(const std::string &path, const std::string &bytes) {
  const cleave::rt::Status status = cleave::rt::writeFileAtomically(path, bytes);
  if (!status.ok())
    throw std::runtime_error(renderText(status.error()));
}

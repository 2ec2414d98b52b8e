// The arrays of the index are not aligned in the file, hence the memcpys.
#include "runtime/Data/MegatronIndex.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace cleave::rt {

namespace {

constexpr uint64_t headerBytes = 34;

template <typename T> T loadAt(std::span<const std::byte> bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::optional<TokenWidth> widthOfDtype(uint8_t code) {
  switch (code) {
  case 1:
    return TokenWidth{1, false};
  case 2:
    return TokenWidth{1, true};
  case 3:
    return TokenWidth{2, true};
  case 4:
    return TokenWidth{4, true};
  case 8:
    return TokenWidth{2, false};
  default:
    return std::nullopt;
  }
}

Error mismatch(const std::string &path, std::string message) {
  return userError("data.index_mismatch", std::move(message))
      .at({path})
      .withRule("the index describes exactly the bytes of its .bin file")
      .suggest("use the .idx and .bin of one run of the preprocessing");
}

Error badIndex(const char *kind, const std::string &path, std::string message) {
  return userError(kind, std::move(message))
      .at({path})
      .withRule("X.idx beside X.bin is an index of Megatron's, version 1, with tokens of 8, 16 or "
                "32 bits (dtype codes 1, 2, 3, 4, 8)")
      .suggest("use the .idx and .bin of one run of the preprocessing")
      .suggest("move the .idx away to read the .bin as raw tokens");
}

Status checkHeader(const std::string &path, std::span<const std::byte> bytes) {
  if (bytes.size() < headerBytes)
    return badIndex("data.truncated", path,
                    fmt::format("'{}' has {} bytes; a Megatron index has at least {}", path,
                                bytes.size(), headerBytes));
  if (std::memcmp(bytes.data(), "MMIDIDX\0\0", 9) != 0)
    return badIndex("data.format_unsupported", path,
                    fmt::format("'{}' is not a Megatron index (no MMIDIDX at its start)", path));
  if (const auto version = loadAt<uint64_t>(bytes, 9); version != 1)
    return badIndex("data.format_unsupported", path,
                    fmt::format("'{}' is a Megatron index of version {}", path, version));
  return Status::success();
}

} // namespace

StatusOr<MegatronIndex> readMegatronIndex(const std::string &path, uint64_t dataBytes) {
  CLEAVE_RT_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file.bytes();
  CLEAVE_RT_RETURN_IF_ERROR(checkHeader(path, bytes));
  const auto dtype = loadAt<uint8_t>(bytes, 17);
  const std::optional<TokenWidth> width = widthOfDtype(dtype);
  if (!width)
    return badIndex("data.format_unsupported", path,
                    fmt::format("'{}' stores tokens with dtype code {}", path, dtype));
  const auto count = loadAt<uint64_t>(bytes, 18), documents = loadAt<uint64_t>(bytes, 26);
  const uint64_t body = bytes.size() - headerBytes;
  // Divisions, since the counts of a damaged file may overflow a product.
  if (count > body / 12 || documents > (body - 12 * count) / 8)
    return badIndex("data.truncated", path,
                    fmt::format("'{}' has {} bytes, too few for the {} sequences and {} documents "
                                "it announces",
                                path, bytes.size(), count, documents));
  MegatronIndex index{*width, {}};
  index.sequences.reserve(count);
  uint64_t reached = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto length = loadAt<int32_t>(bytes, headerBytes + 4 * i);
    const auto offset = loadAt<int64_t>(bytes, headerBytes + 4 * count + 8 * i);
    if (length < 0 || offset < 0)
      return mismatch(path,
                      fmt::format("sequence {} has length {} and offset {}", i, length, offset));
    const uint64_t size = static_cast<uint64_t>(length) * width->bytes;
    const auto start = static_cast<uint64_t>(offset);
    if (start > dataBytes || size > dataBytes - start)
      return mismatch(path, fmt::format("sequence {} ends at byte {} of a data file of {} bytes", i,
                                        start + size, dataBytes));
    reached = std::max(reached, start + size);
    index.sequences.push_back({start, static_cast<uint64_t>(length)});
  }
  CLEAVE_RT_RETURN_IF_ERROR(file.checkRead());
  if (reached != dataBytes)
    return mismatch(path, fmt::format("the index reaches byte {} of a data file of {} bytes",
                                      reached, dataBytes));
  return index;
}

} // namespace cleave::rt

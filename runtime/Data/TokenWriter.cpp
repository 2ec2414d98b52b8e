// Writing raw little-endian tokens.
#include "runtime/Data/TokenWriter.h"

#include <fmt/format.h>

#include <algorithm>

namespace cleave::rt {

StatusOr<TokenWriter> TokenWriter::create(const std::string &path, unsigned bits) {
  if (bits != 8 && bits != 16 && bits != 32)
    return userError("data.format_unsupported", fmt::format("tokens of {} bits", bits))
        .withRule("the width is 8, 16 or 32 bits")
        .suggest("16");
  CLEAVE_RT_ASSIGN_OR_RETURN(AtomicFileWriter file,
                             AtomicFileWriter::create(path, "data.write_failed"));
  return TokenWriter(std::move(file), bits);
}

Status TokenWriter::append(std::span<const int64_t> ids) {
  const int64_t limit = int64_t{1} << bits;
  const auto bad = std::ranges::find_if(ids, [&](int64_t id) { return id < 0 || id >= limit; });
  if (bad != ids.end()) {
    Error error =
        userError("data.id_too_large",
                  fmt::format("token {} has id {}, which {} bits can't hold",
                              count + static_cast<uint64_t>(bad - ids.begin()), *bad, bits))
            .withGiven(fmt::format("id {}", *bad))
            .withRule(fmt::format("ids are from 0 to {}", limit - 1));
    if (bits < 32 && *bad >= 0 && *bad < int64_t{1} << 32)
      error.suggestions.push_back(*bad < 1 << 16 ? "16-bit tokens" : "32-bit tokens");
    return error;
  }
  std::vector<std::byte> bytes;
  bytes.reserve(ids.size() * bits / 8);
  for (int64_t id : ids)
    for (unsigned shift = 0; shift < bits; shift += 8)
      bytes.push_back(static_cast<std::byte>(id >> shift & 0xFF));
  count += ids.size();
  return file.append(bytes);
}

Status TokenWriter::commit() { return file.commit(); }

StatusOr<ByteTokenSummary> writeByteTokens(const std::vector<std::string> &inputs,
                                           const std::string &output,
                                           const ByteTokenOptions &options) {
  if (inputs.empty())
    return userError("data.empty", "no input file was given");
  CLEAVE_RT_ASSIGN_OR_RETURN(TokenWriter writer, TokenWriter::create(output, 16));
  constexpr size_t pieceBytes = 1 << 16;
  std::vector<int64_t> ids;
  ByteTokenSummary summary;
  for (const std::string &input : inputs) {
    CLEAVE_RT_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(input));
    file.adviseSequential();
    std::span<const std::byte> rest = file.bytes();
    while (!rest.empty()) {
      const std::span<const std::byte> piece = rest.first(std::min(rest.size(), pieceBytes));
      rest = rest.subspan(piece.size());
      ids.resize(piece.size());
      std::ranges::transform(piece, ids.begin(),
                             [](std::byte byte) { return std::to_integer<int64_t>(byte); });
      CLEAVE_RT_RETURN_IF_ERROR(file.checkRead());
      CLEAVE_RT_RETURN_IF_ERROR(writer.append(ids));
    }
    CLEAVE_RT_RETURN_IF_ERROR(writer.append(std::span(&options.endOfDocument, 1)));
    ++summary.documents;
  }
  summary.tokens = writer.tokens();
  CLEAVE_RT_RETURN_IF_ERROR(writer.commit());
  return summary;
}

} // namespace cleave::rt

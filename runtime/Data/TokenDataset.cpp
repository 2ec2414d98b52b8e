// From files to samples.
#include "runtime/Data/TokenDataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace cleave::rt {

StatusOr<TokenDataset> TokenDataset::open(const std::vector<std::string> &paths,
                                          const DatasetOptions &options) {
  const uint64_t length = options.sequenceLength;
  if (paths.empty())
    return userError("data.empty", "no token file was given").suggest("--data FILE");
  if (length == 0 || options.vocabulary == 0)
    return internalError("a dataset needs a sequence length and a vocabulary");
  std::vector<TokenFile> files;
  std::vector<uint64_t> starts{0};
  for (const std::string &path : paths) {
    CLEAVE_RT_ASSIGN_OR_RETURN(TokenFile file, TokenFile::open(path, options.rawBits));
    CLEAVE_RT_RETURN_IF_ERROR(file.checkVocabulary(options.vocabulary));
    if (file.size() <= length) {
      Error error =
          userError("data.too_short",
                    fmt::format("'{}' has {} tokens, fewer than one sequence needs", file.path(),
                                file.size()))
              .at({file.path()})
              .withGiven(fmt::format("{} tokens, sequence length {}", file.size(), length))
              .withRule(fmt::format("a file has at least {} tokens: {} inputs and a last "
                                    "target",
                                    length + 1, length));
      if (file.size() > 1)
        error.suggestions.push_back(
            fmt::format("a sequence length of at most {}", file.size() - 1));
      error.suggestions.push_back("a longer file");
      return error;
    }
    starts.push_back(starts.back() + (file.size() - 1) / length);
    files.push_back(std::move(file));
  }
  return TokenDataset(options, std::move(files), std::move(starts));
}

uint64_t TokenDataset::tokens() const {
  uint64_t total = 0;
  for (const TokenFile &file : tokenFiles)
    total += file.size();
  return total;
}

uint64_t TokenDataset::unusedTokens() const {
  uint64_t unused = 0;
  for (const TokenFile &file : tokenFiles)
    unused += (file.size() - 1) % options.sequenceLength;
  return unused;
}

Status TokenDataset::readSample(uint64_t sample, std::span<int32_t> out) const {
  return readSequence(order.sequenceOf(sample), out);
}

Status TokenDataset::readSequence(uint64_t sequence, std::span<int32_t> out) const {
  if (sequence >= sequences() || out.size() != options.sequenceLength + 1)
    return internalError(
        fmt::format("sequence {} of {} into {} tokens", sequence, sequences(), out.size()));
  const auto next = std::ranges::upper_bound(firstSequence, sequence);
  const size_t which = static_cast<size_t>(next - firstSequence.begin()) - 1;
  const uint64_t inFile = sequence - firstSequence[which];
  return tokenFiles[which].read(inFile * options.sequenceLength, out, options.vocabulary);
}

Status TokenDataset::checkIds(uint64_t count) const {
  constexpr uint64_t most = 1 << 16;
  std::vector<int32_t> ids;
  for (size_t i = 0; i < tokenFiles.size() && firstSequence[i] < count; ++i) {
    const uint64_t end =
        (std::min(count, firstSequence[i + 1]) - firstSequence[i]) * options.sequenceLength + 1;
    for (uint64_t at = 0; at < end; at += most) {
      ids.resize(std::min(most, end - at));
      CLEAVE_RT_RETURN_IF_ERROR(tokenFiles[i].read(at, ids, options.vocabulary));
    }
  }
  return {};
}

uint32_t TokenDataset::digest() const {
  std::string text;
  for (const TokenFile &file : tokenFiles)
    text +=
        fmt::format("{} {} {} {} {:08x}\n", std::filesystem::path(file.path()).filename().string(),
                    file.size(), file.width().bytes, nameOf(file.format()), file.sampledDigest());
  return crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

} // namespace cleave::rt

// Telling the layouts apart, and reading ids.
#include "runtime/Data/TokenFile.h"

#include "runtime/Data/MegatronIndex.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <optional>

namespace cleave::rt {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian and read in place");

namespace {

constexpr uint64_t llmcHeaderBytes = 1024;
constexpr int32_t llmcMagic16 = 20240520, llmcMagic32 = 20240801, llmcMagicEval = 20240522;

/// A signed or unsigned id, widened.
template <typename T> int64_t idAt(const std::byte *data, uint64_t index) {
  T id;
  std::memcpy(&id, data + index * sizeof(T), sizeof(T));
  return static_cast<int64_t>(id);
}

/// Copies ids and returns the index of the first one that is not below
/// `vocabulary`, or `count`.
template <typename T>
uint64_t copyIds(const std::byte *data, uint64_t count, int64_t vocabulary, int32_t *out) {
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t id = idAt<T>(data, i);
    if (id < 0 || id >= vocabulary)
      return i;
    out[i] = static_cast<int32_t>(id);
  }
  return count;
}

int64_t anyIdAt(const std::byte *data, uint64_t index, TokenWidth width) {
  switch (width.bytes) {
  case 1:
    return width.isSigned ? idAt<int8_t>(data, index) : idAt<uint8_t>(data, index);
  case 2:
    return width.isSigned ? idAt<int16_t>(data, index) : idAt<uint16_t>(data, index);
  default:
    return width.isSigned ? idAt<int32_t>(data, index) : idAt<uint32_t>(data, index);
  }
}

uint64_t copyAnyIds(const std::byte *data, uint64_t count, TokenWidth width, int64_t vocabulary,
                    int32_t *out) {
  switch (width.bytes) {
  case 1:
    return width.isSigned ? copyIds<int8_t>(data, count, vocabulary, out)
                          : copyIds<uint8_t>(data, count, vocabulary, out);
  case 2:
    return width.isSigned ? copyIds<int16_t>(data, count, vocabulary, out)
                          : copyIds<uint16_t>(data, count, vocabulary, out);
  default:
    return width.isSigned ? copyIds<int32_t>(data, count, vocabulary, out)
                          : copyIds<uint32_t>(data, count, vocabulary, out);
  }
}

/// The `.bin` and `.idx` a path means, if it names a Megatron pair.
struct MegatronPaths {
  std::string data, index;
};

std::optional<MegatronPaths> megatronPaths(const std::string &path) {
  const std::filesystem::path given(path);
  const bool named = given.extension() == ".idx" || given.extension() == ".bin";
  std::filesystem::path data = given, index = given;
  if (named) {
    data.replace_extension(".bin");
    index.replace_extension(".idx");
  } else {
    data += ".bin";
    index += ".idx";
  }
  std::error_code ignored;
  if (!std::filesystem::exists(index, ignored))
    return std::nullopt;
  // A prefix that is a file of its own is that file.
  if (!named && std::filesystem::exists(given, ignored))
    return std::nullopt;
  return MegatronPaths{data.string(), index.string()};
}

Error noTokens(const std::string &path) {
  return userError("data.empty", fmt::format("'{}' has no tokens", path))
      .at({path})
      .withRule("a token file holds at least one sequence and its last target")
      .suggest("cleave tokens FILE… -o OUT.bin writes one from texts");
}

/// An llm.c file whose header and size disagree.
Error badLlmC(const char *kind, const std::string &path, std::string message) {
  return userError(kind, std::move(message))
      .at({path})
      .withRule("an llm.c file is a header of 1024 bytes and exactly the tokens that it announces")
      .suggest("write the file again, or take a whole copy of it");
}

} // namespace

const char *nameOf(TokenFormat format) {
  switch (format) {
  case TokenFormat::Raw:
    return "raw";
  case TokenFormat::LlmC:
    return "llm.c";
  case TokenFormat::Megatron:
    return "Megatron";
  }
  return "unknown";
}

StatusOr<TokenFile> TokenFile::open(const std::string &path, unsigned rawBits) {
  const std::optional<MegatronPaths> pair = megatronPaths(path);
  const std::string &dataPath = pair ? pair->data : path;
  CLEAVE_RT_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(dataPath));
  TokenFile file(std::move(mapped));
  file.name = dataPath;
  if (file.data.size() == 0)
    return noTokens(dataPath);
  int32_t magic = 0;
  if (file.data.size() >= sizeof magic)
    std::memcpy(&magic, file.data.bytes().data(), sizeof magic);
  if (pair)
    CLEAVE_RT_RETURN_IF_ERROR(file.openMegatron(pair->index));
  else if (magic == llmcMagic16 || magic == llmcMagic32 || magic == llmcMagicEval)
    CLEAVE_RT_RETURN_IF_ERROR(file.openLlmC());
  else
    CLEAVE_RT_RETURN_IF_ERROR(file.openRaw(rawBits));
  for (const Run &run : file.runs)
    file.tokens += run.count;
  if (file.tokens == 0)
    return noTokens(dataPath);
  return file;
}

Status TokenFile::openRaw(unsigned bits) {
  if (bits != 8 && bits != 16 && bits != 32)
    return userError("data.format_unsupported", fmt::format("tokens of {} bits", bits))
        .withRule("--token-bits is 8, 16 or 32")
        .suggest("16");
  layout = TokenFormat::Raw;
  tokenWidth = {bits / 8, false};
  if (data.size() % tokenWidth.bytes != 0)
    return userError("data.truncated",
                     fmt::format("'{}' has {} bytes, which is no whole number of {}-bit tokens",
                                 name, data.size(), bits))
        .at({name})
        .withRule(fmt::format("the size is a multiple of {}", tokenWidth.bytes))
        .suggest("write the file again, or give its width with --token-bits");
  runs = {{0, 0, data.size() / tokenWidth.bytes}};
  return Status::success();
}

Status TokenFile::openLlmC() {
  layout = TokenFormat::LlmC;
  if (data.size() < llmcHeaderBytes)
    return badLlmC("data.truncated", name,
                   fmt::format("'{}' has {} bytes, less than the {} of an llm.c header", name,
                               data.size(), llmcHeaderBytes));
  int32_t header[3];
  std::memcpy(header, data.bytes().data(), sizeof header);
  const auto [magic, version, count] = std::to_array(header);
  const bool is16 = magic == llmcMagic16 && version == 1;
  const bool is32 = magic == llmcMagic32 && version == 7;
  if (!is16 && !is32)
    return userError("data.format_unsupported",
                     fmt::format("'{}' is an llm.c file with magic {} and version {}", name, magic,
                                 version))
        .at({name})
        .withRule("token files have magic 20240520 with version 1, or 20240801 with version 7")
        .suggest("an llm.c token file (evaluation files have another layout)");
  tokenWidth = {is16 ? 2u : 4u, false};
  const uint64_t announced = static_cast<uint32_t>(count);
  const uint64_t needed = llmcHeaderBytes + announced * tokenWidth.bytes;
  if (data.size() < needed)
    return badLlmC("data.truncated", name,
                   fmt::format("'{}' has {} bytes; its header announces {} tokens, which need {}",
                               name, data.size(), announced, needed));
  if (data.size() > needed)
    return badLlmC("data.index_mismatch", name,
                   fmt::format("'{}' has {} bytes; its header announces {} tokens, which end at "
                               "byte {}",
                               name, data.size(), announced, needed));
  runs = {{0, llmcHeaderBytes, announced}};
  return Status::success();
}

Status TokenFile::openMegatron(const std::string &indexPath) {
  layout = TokenFormat::Megatron;
  CLEAVE_RT_ASSIGN_OR_RETURN(const MegatronIndex index, readMegatronIndex(indexPath, data.size()));
  tokenWidth = index.width;
  uint64_t first = 0;
  for (const MegatronSequence &sequence : index.sequences) {
    // Sequences that follow each other, the usual case, make one run.
    if (!runs.empty() &&
        runs.back().byteOffset + runs.back().count * tokenWidth.bytes == sequence.byteOffset)
      runs.back().count += sequence.tokens;
    else if (sequence.tokens > 0)
      runs.push_back({first, sequence.byteOffset, sequence.tokens});
    first += sequence.tokens;
  }
  return Status::success();
}

Status TokenFile::checkVocabulary(uint64_t vocabulary) const {
  if (vocabulary <= tokenWidth.capacity())
    return Status::success();
  Error error =
      userError("data.width_too_small",
                fmt::format("'{}' stores {}-bit tokens, too narrow for a vocabulary of {}", name,
                            8 * tokenWidth.bytes, vocabulary))
          .at({name})
          .withGiven(fmt::format("{} file, ids up to {}, vocabulary {}", nameOf(layout),
                                 tokenWidth.capacity() - 1, vocabulary))
          .withRule(fmt::format("the width holds every id: vocabulary at most {}",
                                tokenWidth.capacity()));
  error.suggestions.push_back(layout == TokenFormat::Raw
                                  ? "write 32-bit tokens and pass --token-bits 32"
                                  : "write the file with 32-bit tokens");
  return error;
}

uint32_t TokenFile::sampledDigest() const {
  constexpr uint64_t pieces = 64, pieceBytes = 4096;
  const uint64_t size = data.size(), last = size - std::min(size, pieceBytes);
  uint32_t sum = 0;
  for (uint64_t i = 0; i < pieces; ++i) {
    const uint64_t start = last / (pieces - 1) * i + last % (pieces - 1) * i / (pieces - 1);
    const std::span<const std::byte> piece =
        data.bytes().subspan(start, std::min(size - start, pieceBytes));
    sum = crc32c(piece, sum);
    data.releasePages(piece);
  }
  return sum;
}

Status TokenFile::read(uint64_t first, std::span<int32_t> out, uint64_t vocabulary) const {
  if (out.size() > tokens || first > tokens - out.size())
    return internalError(fmt::format("tokens {} to {} of '{}', which has {}", first,
                                     first + out.size(), name, tokens));
  auto run = std::ranges::upper_bound(runs, first, {}, &Run::firstToken);
  // An id of int32 and above is out of range whatever the vocabulary.
  const auto limit = static_cast<int64_t>(std::min<uint64_t>(vocabulary, uint64_t{1} << 31));
  for (--run; !out.empty(); ++run) {
    const uint64_t skip = first - run->firstToken;
    const uint64_t count = std::min<uint64_t>(run->count - skip, out.size());
    const std::byte *start = data.bytes().data() + run->byteOffset + skip * tokenWidth.bytes;
    const uint64_t good = copyAnyIds(start, count, tokenWidth, limit, out.data());
    CLEAVE_RT_RETURN_IF_ERROR(data.checkRead());
    if (good < count)
      return userError("data.token_out_of_range",
                       fmt::format("token {} of '{}' has id {}", first + good, name,
                                   anyIdAt(start, good, tokenWidth)))
          .at({name})
          .withGiven(
              fmt::format("id {}, vocabulary {}", anyIdAt(start, good, tokenWidth), vocabulary))
          .withRule(fmt::format("ids are from 0 to {}", vocabulary - 1))
          .suggest("use data made with the model's tokenizer, and the right --token-bits");
    data.releasePages({start, count * tokenWidth.bytes});
    first += count;
    out = out.subspan(count);
  }
  return Status::success();
}

} // namespace cleave::rt

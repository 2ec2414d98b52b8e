// One file of token ids, mapped in memory and read by position. Three layouts,
// told apart by the file itself:
//
//   Megatron  X.idx beside X.bin (either may be named): the index gives width
//             and sequences; its order is the order of tokens here
//   llm.c     a 1024-byte header with magic 20240520 (version 1, 16 bits) or
//             20240801 (version 7, 32 bits)
//   raw       little-endian ids without a header, 8, 16 or 32 bits wide
//
// Sizes and index are checked when the file is opened, ids when they are read
// (checking all at start would read the whole file). Kinds: `data.empty`,
// `data.truncated`, `data.index_mismatch`, `data.format_unsupported`,
// `data.width_too_small`, `data.token_out_of_range`. Which tokens make a
// training sample is TokenDataset's business.
#pragma once

#include "runtime/Base/Files.h"
#include "runtime/Base/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cleave::rt {

enum class TokenFormat { Raw, LlmC, Megatron };

/// "raw", "llm.c", "Megatron".
const char *nameOf(TokenFormat format);

/// How one id is stored.
struct TokenWidth {
  unsigned bytes = 2;
  bool isSigned = false;

  /// Ids that fit: 2^bits, or 2^(bits-1) when signed.
  uint64_t capacity() const { return uint64_t{1} << (8 * bytes - (isSigned ? 1 : 0)); }
};

class TokenFile {
public:
  /// `rawBits` (8, 16 or 32) is used only when the file does not say itself.
  static StatusOr<TokenFile> open(const std::string &path, unsigned rawBits = 16);

  const std::string &path() const { return name; }
  TokenFormat format() const { return layout; }
  TokenWidth width() const { return tokenWidth; }
  uint64_t size() const { return tokens; }

  /// `data.width_too_small` if ids of `vocabulary` tokens can't all be stored.
  Status checkVocabulary(uint64_t vocabulary) const;

  /// Reads tokens first … first + out.size() - 1, which must exist. An id at or
  /// above `vocabulary` (or negative) is `data.token_out_of_range` and names
  /// its position.
  Status read(uint64_t first, std::span<int32_t> out, uint64_t vocabulary) const;

  /// A sum over pieces spread evenly over the file, first and last included.
  /// All of it would take as long as reading it.
  uint32_t sampledDigest() const;

private:
  /// Tokens that lie together in the file.
  struct Run {
    uint64_t firstToken;
    uint64_t byteOffset;
    uint64_t count;
  };

  TokenFile(MappedFile data) : data(std::move(data)) {}
  Status openLlmC();
  Status openRaw(unsigned bits);
  Status openMegatron(const std::string &indexPath);

  MappedFile data;
  std::string name;
  TokenFormat layout = TokenFormat::Raw;
  TokenWidth tokenWidth;
  uint64_t tokens = 0;
  std::vector<Run> runs;
};

} // namespace cleave::rt

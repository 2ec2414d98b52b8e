// Making raw token files: the core of `cleave tokens`. Ids that the width can't
// hold are refused, never wrapped; the file appears whole or not at all.
#pragma once

#include "runtime/Base/Files.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cleave::rt {

class TokenWriter {
public:
  /// `bits` is 8, 16 or 32.
  static StatusOr<TokenWriter> create(const std::string &path, unsigned bits = 16);

  /// `data.id_too_large` if an id does not fit; nothing of `ids` is then kept.
  Status append(std::span<const int64_t> ids);
  uint64_t tokens() const { return count; }
  Status commit();

private:
  TokenWriter(AtomicFileWriter file, unsigned bits) : file(std::move(file)), bits(bits) {}
  AtomicFileWriter file;
  unsigned bits;
  uint64_t count = 0;
};

struct ByteTokenOptions {
  /// Appended after every file. Bytes take ids 0 to 255.
  int64_t endOfDocument = 256;
};

struct ByteTokenSummary {
  uint64_t documents = 0;
  uint64_t tokens = 0;
};

/// Writes the bytes of `inputs` as 16-bit tokens, one document a file.
StatusOr<ByteTokenSummary> writeByteTokens(const std::vector<std::string> &inputs,
                                           const std::string &output,
                                           const ByteTokenOptions &options = {});

} // namespace cleave::rt

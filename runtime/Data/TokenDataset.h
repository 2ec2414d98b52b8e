// Token files as a list of training sequences, and samples drawn from it.
//
// Sequence i of a file of n tokens is tokens[i·S … i·S + S]: S inputs and the S
// targets one further on, so that sequences share one token. A file gives
// floor((n - 1) / S) of them; what is left at its end is unused and counted.
// Several files are one list, in the order given; sequences don't cross files.
#pragma once

#include "runtime/Data/SampleOrder.h"
#include "runtime/Data/TokenFile.h"

namespace cleave::rt {

struct DatasetOptions {
  /// S, in tokens.
  uint64_t sequenceLength = 0;
  uint64_t vocabulary = 0;
  /// Width of raw files.
  unsigned rawBits = 16;
  OrderKind order = OrderKind::Sequential;
  uint64_t seed = 1;
};

class TokenDataset {
public:
  /// Opens and checks all files. `data.too_short` if one has fewer than S + 1
  /// tokens; the kinds of TokenFile otherwise.
  static StatusOr<TokenDataset> open(const std::vector<std::string> &paths,
                                     const DatasetOptions &options);

  /// Sequences, which is samples per epoch.
  uint64_t sequences() const { return order.epochLength(); }
  uint64_t tokens() const;
  /// Tokens at the ends of files that no sequence has as a target.
  uint64_t unusedTokens() const;
  const SampleOrder &sampleOrder() const { return order; }
  const std::vector<TokenFile> &files() const { return tokenFiles; }

  /// Reads the S + 1 tokens of sample `sample`, counted from 0 over all epochs.
  Status readSample(uint64_t sample, std::span<int32_t> out) const;
  /// Reads the S + 1 tokens of sequence `sequence` (below `sequences()`).
  Status readSequence(uint64_t sequence, std::span<int32_t> out) const;

  /// Reads the first `count` sequences for their ids alone: `data.token_out_of_range`
  /// before a run rather than in the middle of it.
  Status checkIds(uint64_t count) const;

  /// A digest of names, sizes, layout and some of the tokens: what a resumed run
  /// compares to notice that it was given other data.
  uint32_t digest() const;

private:
  TokenDataset(DatasetOptions options, std::vector<TokenFile> files, std::vector<uint64_t> starts)
      : options(options), tokenFiles(std::move(files)), firstSequence(std::move(starts)),
        order(options.order, options.seed, firstSequence.back()) {}

  DatasetOptions options;
  std::vector<TokenFile> tokenFiles;
  /// Number of the first sequence of each file, and of one past the last.
  std::vector<uint64_t> firstSequence;
  SampleOrder order;
};

} // namespace cleave::rt

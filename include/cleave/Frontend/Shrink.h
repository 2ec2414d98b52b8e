//===- Shrink.h - The same model with smaller sizes ------------------------===//
//
// For those who want to look at what a model does rather than at how much: a config whose
// widths, heads, vocabulary and layers are few, with the same kinds of layers. It is read
// by the family's own reader, so that all that follows from sizes follows again.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Frontend/Model.h"

namespace cleave::frontend {

/// What smaller sizes have to keep.
struct SmallSizes {
  /// Widths, heads and experts keep their rest modulo this, the vocabulary modulo its own.
  int64_t ways = 1, vocabularyWays = 1;
  /// At least so many layers; 0: all.
  int64_t layers = 0;
  /// Tokens of the sequences that are to be run: a window is made to end within them.
  int64_t sequence = 0;
};

struct ShrunkModel {
  ModelDescription model;
  struct Change {
    std::string key;
    int64_t from = 0, to = 0;
  };
  /// By key of the config, in a fixed order.
  std::vector<Change> changes;
};

/// `model`, which came from a config, made smaller. The ratio of heads to key heads, the
/// kinds of layers and their order of first appearance stay. Sizes that the family does not
/// take smaller stay too.
ShrunkModel shrinkModel(const ModelDescription &model, const SmallSizes &sizes);

} // namespace cleave::frontend

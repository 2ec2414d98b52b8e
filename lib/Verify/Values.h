//===- Values.h - Values of one layout against those of another ------------===//
//
// The values of a step are kept as the other layout computes them, whole, by operator of
// the model, layer and micro-batch. What the ranks of the layout in question hold is
// compared as it is computed. Where micro-batches have other sizes, rows of the batch are
// compared, and what has none is left to the gradients. A value that one side lacks or has
// in other pieces is left out.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Verify/Verify.h"
#include "lib/Verify/Compare.h"
#include "lib/Verify/Origins.h"
#include "lib/Verify/Watch.h"
#include <set>

namespace cleave {

/// How a step is cut into micro-batches, and the sequences of one.
struct MicroBatches {
  int64_t count = 1, rows = 1;
};

class ValueComparison {
public:
  ValueComparison(std::vector<Origin> origins, MicroBatches kept, MicroBatches compared,
                  BlockComparison &comparison)
      : origins(std::move(origins)), keptIn(kept), comparedIn(compared), comparison(comparison) {}

  /// A step begins.
  void begin();
  /// A value of the other layout, of which all are kept before any is compared.
  void keep(Part &part, const Seen &value);
  /// The other layout adds to the gradient of a tensor.
  void keepGradient(const std::string &name);
  /// A value of the layout in question.
  void compare(Part &part, const Seen &value, size_t place);

  /// The first difference of the step in the order of the program.
  std::optional<Divergence> first() const { return divergence; }
  /// Tensors in the order in which backward adds to their gradients.
  const std::vector<std::string> &gradientOrder() const { return gradients; }
  /// Values compared so far.
  int64_t compared() const { return count; }

  /// Writes down which rank of all `rank` of `part` is, and its place in a pipeline.
  static void locate(Divergence &divergence, int64_t rank, size_t place, Part &part);

private:
  /// Operator, layer, result.
  using Key = std::tuple<int64_t, int64_t, unsigned>;
  struct Kept {
    /// Of its first computation in the step.
    int64_t order = 0;
    bool forward = false;
    int64_t pieces = 1;
    /// Tokens of a sequence stood in order.
    bool ordered = true;
    /// By micro-batch, each in the order of computation.
    std::vector<std::vector<HostTensor>> byMicro;
  };

  /// What `value` should be, or nothing where that is not known.
  std::optional<HostTensor> expected(const Kept &kept, const Seen &value) const;
  void describeReads(Divergence &divergence, const Seen &value) const;

  std::vector<Origin> origins;
  MicroBatches keptIn, comparedIn;
  BlockComparison &comparison;
  std::map<Key, Kept> values;
  std::vector<std::string> gradients;
  std::set<std::string> gradientNames;
  std::optional<Divergence> divergence;
  /// Micro-batch and order of `divergence`.
  std::pair<int64_t, int64_t> when;
  /// By operator, layer and micro-batch: whether all its results agree.
  std::map<std::tuple<int64_t, int64_t, int64_t>, bool> agreed;
  int64_t count = 0;
};

} // namespace cleave

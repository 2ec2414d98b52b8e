// Which tokens a rank sees: fills the program's tokens, targets and positions
// for one micro-batch, in the order BatchLayout defines. A pure function of
// (step, rank, micro-batch), so that nothing has to be stored or restored.
#pragma once

#include "runtime/Base/Status.h"
#include "runtime/Data/TokenDataset.h"
#include "runtime/Exec/RankMemory.h"
#include "runtime/Schema/Program.h"

#include <cstdint>
#include <vector>

namespace cleave::rt {

class BatchReader {
public:
  /// All three must outlive the reader; `dataset` has the program's sequence
  /// length and vocabulary.
  BatchReader(const Program &program, int64_t rank, const TokenDataset &dataset,
              const RankMemory &memory);

  /// Micro-batch `index` of the training step that starts at sample `first`
  /// (step k starts at k · globalBatch).
  Status fillTraining(uint64_t first, int64_t index);

  /// Micro-batch `index` of an evaluation over the sequences [0, count): the
  /// data ranks together take D·b in a row, in file order; what lies past
  /// `count` gets targets that do not count.
  Status fillEvaluation(int64_t index, uint64_t count);

private:
  /// Writes row `row` from `buffer`, or one without valid targets.
  void writeRow(int64_t row, bool real);

  const Program &program;
  const TokenDataset &dataset;
  const RankMemory &memory;
  const int64_t dataIndex, dataRanks;
  /// First row of this rank in a sequence, and its rows.
  const int64_t start, length;
  /// The position of each row of a sequence.
  const std::vector<int64_t> order;
  std::vector<int32_t> buffer;
};

} // namespace cleave::rt

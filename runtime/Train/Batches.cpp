// Sequences into the program's input regions.
#include "runtime/Train/Batches.h"

#include "runtime/Schema/TokenOrder.h"

namespace cleave::rt {

BatchReader::BatchReader(const Program &program, int64_t rank, const TokenDataset &dataset,
                         const RankMemory &memory)
    : program(program), dataset(dataset), memory(memory),
      dataIndex(program.mesh.indexOf(rank, program.batch.dataAxes)),
      dataRanks(program.mesh.sizeOf(program.batch.dataAxes)),
      start(program.mesh.indexOf(rank, program.batch.sequenceAxes) * program.localSequence()),
      length(program.localSequence()),
      order(zigzagOrder(program.batch.sequence, program.batch.zigzag)),
      buffer(program.batch.sequence + 1) {}

Status BatchReader::fillTraining(uint64_t first, int64_t index) {
  const BatchLayout &batch = program.batch;
  const uint64_t at =
      first + static_cast<uint64_t>((dataIndex * batch.microBatches + index) * batch.microBatch);
  for (int64_t row = 0; row < batch.microBatch; ++row) {
    CLEAVE_RT_RETURN_IF_ERROR(dataset.readSample(at + row, buffer));
    writeRow(row, true);
  }
  return {};
}

Status BatchReader::fillEvaluation(int64_t index, uint64_t count) {
  const int64_t rows = program.batch.microBatch;
  const uint64_t at = static_cast<uint64_t>((index * dataRanks + dataIndex) * rows);
  for (int64_t row = 0; row < rows; ++row) {
    const bool real = at + row < count;
    if (real)
      CLEAVE_RT_RETURN_IF_ERROR(dataset.readSequence(at + row, buffer));
    writeRow(row, real);
  }
  return {};
}

void BatchReader::writeRow(int64_t row, bool real) {
  const Exchange &exchange = program.exchange;
  const auto rows = static_cast<int64_t>(order.size());
  int32_t *tokens = memory.ints(exchange.tokens) + row * length;
  int32_t *targets = memory.ints(exchange.targets) + row * length;
  for (int64_t t = 0; t < length; ++t) {
    const bool inside = real && start + t < rows;
    tokens[t] = inside ? buffer[order[start + t]] : 0;
    targets[t] = inside ? buffer[order[start + t] + 1] : ignoredTarget;
  }
  if (exchange.positions) {
    int32_t *positions = memory.ints(*exchange.positions) + row * length;
    for (int64_t t = 0; t < length; ++t)
      positions[t] = static_cast<int32_t>(start + t < rows ? order[start + t] : start + t);
  }
}

} // namespace cleave::rt

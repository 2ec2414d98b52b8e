// A whole program small enough to check by hand: a line y = a·x + b fitted by
// AdamW to (token, next token) pairs scaled to [0, 1], data parallel over all
// ranks, and a vector "shrink" cut over the ranks that only weight decay moves.
// Kernels are plain C++ here, as the compiler's would be linked.
#pragma once

#include "runtime/Exec/KernelTable.h"
#include "runtime/Schema/Program.h"

#include <vector>

namespace tiny {

inline constexpr int64_t vocabulary = 64;
inline constexpr int64_t sequence = 6;
inline constexpr int64_t shrinkSize = 5;

/// `ranks` data ranks, each with `microBatches` of `microBatch` sequences.
cleave::rt::Program program(int64_t ranks, int64_t microBatch, int64_t microBatches);

cleave::rt::KernelTable kernels();

/// What `program` computes, in float64 and without ranks: loss and gradient norm
/// of each step. `tokens` as in the data file, sequential order.
struct Reference {
  std::vector<double> loss, norm;
  double a = 0, b = 0;
};
Reference reference(const std::vector<int> &tokens, int64_t globalBatch, int steps, double a,
                    double b, double rate);

} // namespace tiny

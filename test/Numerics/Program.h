//===- Program.h - A golden model as an interpreted program ----------------===//
//
// Test harness: imports a golden model, carries it through the phases for one
// layout, and runs step 0 in float64 on all ranks of it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Interpreter/Interpreter.h"
#include "cleave/Pipelines/Phases.h"
#include "mlir/IR/MLIRContext.h"
#include <map>
#include <string>

namespace cleave::test {

/// What a layout pins. `ranks` follow from dp × cp × tp × pp.
struct Layout {
  std::string name = {};
  int64_t dp = 1, tp = 1;
  bool sequence = false, vocabulary = true;
  int64_t microBatches = 1;
  /// Pieces that classifier and loss run in.
  int64_t batchPieces = 1, sequencePieces = 1;
  /// Stage of ZeRO.
  int64_t zero = 0;
  Recompute recompute = Recompute::None;
  /// Only the first `raggedLength` targets of a sequence count.
  bool ragged = false;
  /// Blocks of the vocabulary that classifier and loss go through; a few more where
  /// ZeRO needs equal ones.
  int64_t vocabularyPieces = 1;
  /// Sequences of the step, and tokens of each.
  int64_t batch = 8;
  int64_t length = 32;
  /// Ranks that share a sequence, and the axis over which tokens are dealt out in
  /// zig-zag; empty: they stand in order.
  int64_t cp = 1;
  std::string zigzag = "context";
  /// Ranks of a pipeline, stages on each, and its schedule.
  int64_t pp = 1, vp = 1;
  std::string schedule = "1f1b";
  /// Layers of each stage, where the planner's choice is not meant.
  std::vector<int64_t> stageSizes = {};
  /// Ranks that share state by ZeRO; 0: all of them.
  int64_t zeroGroup = 0;
  /// Ranks along the data axis of the plan after it is made; 0: as made, `dp`.
  int64_t dataRanks = 0;
  /// Ranks that the experts are dealt out over.
  int64_t experts = 1;
  /// Products and kept values in bf16.
  bool narrow = false;
  /// Exchanges beside the computation, placed as for commands.
  bool overlap = false;
  /// Axes from the inside out, as a pin says it.
  std::string order = "tp-cp-dp-pp";
};

/// Targets that count in sequence `n` of a ragged batch of 32 tokens: none, 9, 18
/// or 27.
inline int64_t raggedLength(int64_t n) { return n % 4 * 9; }

/// Everything that step 0 of a golden model yields, whole tensors.
struct StepResult {
  double loss = 0;
  /// What is minimised, if that is more than the loss.
  double objective = 0;
  std::map<std::string, HostTensor> gradients;
  /// After the update.
  double norm = 0;
  std::map<std::string, HostTensor> values;
  /// Logits [batch, sequence, vocab] of the first micro-batch (one rank only).
  HostTensor logits;
  /// The experts of each token [batch, sequence, choice], layer by layer, in the order in
  /// which one rank chooses them.
  std::vector<HostTensor> choices;
};

/// Runs step 0 of `test/golden/<model>` under `layout`; the program is checked
/// and verified on the way. Fails the current test on any error.
StepResult runStep0(const std::string &model, const Layout &layout);

/// Text of a file of a golden model.
std::string readGolden(const std::string &model, const std::string &file);

} // namespace cleave::test

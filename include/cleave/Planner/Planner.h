//===- Planner.h - From a request to a plan --------------------------------===//
//
// Writes and checks plans. A request says how many ranks there are and what is
// pinned; the planner reads the kinds of layers through their sharding rules
// and writes a `plan.solution`. It never changes the model and never looks at a
// device. What the request leaves open is chosen by a fixed policy over the
// names of dimensions (heads, then the MLP's width, then the vocabulary, then
// the sequence take the tensor axis; ranks that no pin uses are data parallel).
// No operator is named here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/AxisOrder.h"
#include "dialects/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/Base/Status.h"
#include <array>
#include <optional>

namespace cleave {

/// What the layers of a model compute again in their backward.
enum class Recompute {
  None,
  /// All but products, attention, and what is linear in these (cleave/Analysis/Dear.h).
  Selective,
  /// All of their forward.
  Full,
};
/// In order of the values.
inline constexpr std::array<const char *, 3> kRecomputeNames = {"none", "selective", "full"};
inline const char *recomputeName(Recompute value) {
  return kRecomputeNames[static_cast<size_t>(value)];
}

/// What `--pin` may fix; absent: the planner chooses.
struct Pins {
  std::optional<int64_t> dp, tp, microBatch;
  /// Ranks that share each sequence, attention's queries included.
  std::optional<int64_t> cp;
  /// Ranks of a pipeline, stages of each, and the name of the schedule.
  std::optional<int64_t> pp, vp;
  std::optional<std::string> schedule;
  /// Stage of ZeRO: 1 cuts the optimizer's state over data × context, 2 gradients
  /// too, 3 weights too.
  std::optional<int64_t> zero;
  /// Ranks of data × context that share state by `zero`, each such group holding all of it;
  /// absent: all of them.
  std::optional<int64_t> zeroGroup;
  /// Exchanges of parameters and gradients run beside the computation; absent: where they
  /// cross nodes.
  std::optional<bool> overlap;
  /// Most MiB of such exchanges that travel as one message.
  std::optional<int64_t> bucketMegabytes;
  std::optional<Recompute> recompute;
  /// Cut the sequence over the tensor axis between the blocks (`sp`), and the
  /// vocabulary of embedding and loss (`vocab`).
  std::optional<bool> sequence, vocabulary;
  /// Over how many ranks the experts of a layer are dealt out: a part of the data axis,
  /// the tensor axis, or both.
  std::optional<int64_t> experts;
  /// In which order the axes lie over the ranks.
  std::optional<cost::AxisOrder> order;
  /// Paths, or what stands before a dot in some ("mlp"), and whether they are bf16,
  /// whatever the request says of the rest.
  std::vector<std::pair<std::string, bool>> narrow;
};

/// Reads `dp=2,tp=4,sp=1,precision.mlp=fp32`. Kinds of errors: `plan.unknown_pin`,
/// `plan.bad_pin`, `plan.unsupported_pin` (an axis this version cannot run).
rt::StatusOr<Pins> parsePins(llvm::StringRef text);

struct PlanRequest {
  int64_t ranks = 1;
  /// Tokens of a sequence, sequences of a step.
  int64_t sequence = 0, globalBatch = 0;
  Pins pins;
  std::string cluster;
  /// Ranks that stand on one node; 0: all.
  int64_t ranksPerNode = 0;
  /// Compute and store in bf16 what bears it; else all is f32.
  bool narrow = false;
  /// Consecutive layers of each stage of the pipeline, embedding and head included; empty: by
  /// the work of their products.
  std::vector<int64_t> stageSizes = {};
};

/// Writes a plan for `model` (an imported module), in a module of its own.
rt::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> planFromPins(mlir::ModuleOp model,
                                                             const PlanRequest &request);

/// Bits of what is computed at `path`, where the pins of `request` say another precision for it
/// than the request; else nothing.
std::optional<int> pinnedWidth(llvm::StringRef path, const PlanRequest &request);

/// What `request` pins beyond the usual and has no effect on its plan, as "zero=3" where one
/// rank has each parameter to itself, or "sp=1" without a tensor axis.
std::vector<std::string> idlePins(mlir::ModuleOp model, const PlanRequest &request);

/// Whether `solution` can be carried out on `model` with `ranks` ranks: every
/// kind, path, factor and axis exists, no operator uses an axis twice, factors
/// can be cut, the batch divides. Diagnostics at the plan's own lines, each
/// starting with its kind ("plan.unknown_axis: …").
llvm::LogicalResult checkPlan(plan::SolutionOp solution, mlir::ModuleOp model, int64_t ranks);

/// Bytes of weights, gradients and both moments, in fp32, that one rank holds
/// under a checked plan; of a pipeline the rank that holds the most.
int64_t stateBytesPerRank(plan::SolutionOp solution, mlir::ModuleOp model);

} // namespace cleave

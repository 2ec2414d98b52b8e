//===- Stages.h - Which layers are which stage of a pipeline ---------------===//
//
// Deals a model's layers out to the stages of a pipeline, writes that into a plan,
// and checks what a plan says of it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Analysis/Layers.h"
#include "cleave/Planner/Planner.h"
#include "dialects/Plan/Plan.h"
#include "mlir/IR/Builders.h"
#include <tuple>

namespace cleave {

/// The name of the mesh axis that plans made here have stages along.
inline constexpr llvm::StringLiteral kPipelineAxis = "pipe";

/// A pipeline as pins leave it; one stage on one rank is none.
struct PipelineChoice {
  int64_t ranks = 1, stagesOfRank = 1;
  llvm::StringRef schedule = "1f1b";

  bool isPipeline() const { return ranks > 1; }
};

/// What `pp`, `vp` and `schedule` ask for, of `ranks` ranks in all. Errors: `plan.bad_pin`,
/// `plan.schedule_stages`, `plan.stages_gt_layers`.
rt::StatusOr<PipelineChoice> settlePipeline(const Pins &pins, int64_t ranks, mlir::ModuleOp model);

/// How many consecutive layers of `weights` each of `stages` stages has, at least one
/// of at most as many: the largest sum of a stage is the least possible; among those
/// with that, sums are most even; among those, earlier stages have more layers.
llvm::SmallVector<int64_t> splitEvenly(llvm::ArrayRef<int64_t> weights, int64_t stages);

/// The same for several numbers of stages, which have all but one row of a table in common.
class StageTable {
public:
  explicit StageTable(llvm::ArrayRef<int64_t> weights);
  llvm::SmallVector<int64_t> split(int64_t stages);

private:
  /// How good a split of the last layers is: lower is better.
  struct Score {
    int64_t largest = 0;
    double squares = 0;

    bool operator<(const Score &o) const {
      return std::tie(largest, squares) < std::tie(o.largest, o.squares);
    }
  };
  /// One more stage.
  void addRow();

  /// Weights of all layers before each.
  std::vector<int64_t> sums;
  /// Of the layers from each on, in as many stages as there are rows.
  std::vector<Score> scores;
  /// rows[s - 1][i]: the layers of the first of s stages that layers from i on are dealt out to.
  std::vector<std::vector<int32_t>> rows;
};

/// Writes the `plan.pipeline` of `choice` at `b`, with stages of `sizes` layers; empty: a layer
/// weighs what its matrix products take for a token.
void writePipeline(mlir::OpBuilder &b, mlir::Location loc, mlir::ModuleOp model,
                   const PipelineChoice &choice, llvm::ArrayRef<int64_t> sizes = {});

/// The stages of a pipeline that read each kept tensor, for those of several stages, in
/// the order of the model. `sizes` are the numbers of layers of the stages.
std::vector<std::pair<std::string, llvm::SmallVector<int64_t>>>
sharedTensors(llvm::ArrayRef<Layer> layers, llvm::ArrayRef<int64_t> sizes);

/// Layers of each stage of a pipeline.
llvm::SmallVector<int64_t> stageSizes(plan::PipelineOp pipeline);

/// Part of `checkPlan`: schedule, axis, stages, layers, shared parameters.
llvm::LogicalResult checkPipeline(plan::PipelineOp pipeline, plan::SolutionOp solution,
                                  mlir::ModuleOp model);

} // namespace cleave

//===- Verify.h - Do two layouts of a model train alike? -------------------===//
//
// Runs two plans for one model in float64, step by step on the same weights and tokens,
// and finds the first tensor in which they differ: values of the forward and the backward
// pass by operator and layer, gradients of parameters, loss, norm, and what the optimizer
// keeps. Values are compared as each rank holds them, so that the rank at fault is known.
//
// A program in place of the first plan's own may be given: what a pass made of it, or an
// edited dump.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Transforms/ApplyPlan/ApplyPlan.h"
#include "cleave/Verify/Training.h"
#include <functional>
#include <optional>
#include <vector>

namespace cleave {

/// What both layouts are run with.
struct VerifySettings {
  int64_t steps = 2;
  /// In parts of the largest number of a tensor.
  double tolerance = 1e-9;
  OptimizerSettings optimizer;
  /// The learning rate of a step; the first is 1.
  std::function<double(int64_t step)> rate;
  std::function<rt::StatusOr<HostTensor>(nn::ParameterOp parameter, const std::string &name)>
      weights;
  /// Argument `name` of sequences `first` … `first + count − 1` of a step: [count, tokens].
  std::function<HostTensor(llvm::StringRef name, int64_t step, int64_t first, int64_t count)> batch;
  /// Told before each part of the work.
  std::function<void(const std::string &what)> progress;
};

/// The first place where the layouts differ.
struct Divergence {
  int64_t step = 1;
  /// Absent for what belongs to a whole step.
  std::optional<int64_t> micro;
  /// "forward", "backward", "again" (forward computed again for the backward), "gradient"
  /// (what a rank has added up), "reduced gradient", "loss", "objective", "norm", "moment1",
  /// "moment2" or "weight".
  std::string phase;
  /// Of a value: kind of layer, number of the layer or -1, path, name of the operator and
  /// number of its result.
  std::string kind, path, op;
  int64_t layer = -1;
  unsigned result = 0;
  /// Of a kept tensor: its name.
  std::string tensor;
  /// The element that differs most on the first rank that has it wrong, in the whole tensor.
  llvm::SmallVector<int64_t> index;
  double got = 0, want = 0;
  /// Of the plan's mesh; absent where the value is a sum over places.
  std::optional<int64_t> rank;
  /// Place along the pipeline, if there is one.
  std::optional<int64_t> place;
  /// What the operator reads, and whether that agrees: "attention.out (agrees)".
  std::vector<std::string> reads;
  /// All that was compared of what it reads agrees.
  bool readsAgree = false;
};

struct VerifyReport {
  std::optional<Divergence> first;
  int64_t steps = 0, values = 0, gradients = 0, states = 0;
  /// Largest difference, in parts of the tolerance.
  double largest = 0;
  /// Of each step, by the other layout.
  std::vector<double> losses;
};

/// One of the layouts: a plan that was checked against the model.
struct VerifyLayout {
  mlir::ModuleOp plan;
  /// Run in place of what the plan makes of the model; may be absent. It is a copy of that
  /// with other operators: parts, entries and kept tensors are the same.
  mlir::ModuleOp program = {};
};

/// Compares `layout` with `against` on a differentiated model. Both have the same batch.
/// Errors: `verify.batch_mismatch`, `verify.program_mismatch` (the given program is not of
/// this plan), `verify.program_failed` (it cannot be run), and those of the phases.
rt::StatusOr<VerifyReport> verifyLayouts(mlir::ModuleOp model, const VerifyLayout &layout,
                                         const VerifyLayout &against,
                                         const VerifySettings &settings);

/// `verify.batch_mismatch` where two plans have steps of other sequences.
rt::Status checkSameBatch(mlir::ModuleOp plan, mlir::ModuleOp other);

/// The program that `plan` makes of a differentiated model, as `verifyLayouts` runs it.
rt::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>>
programFor(mlir::ModuleOp model, mlir::ModuleOp plan, const OptimizerSettings &optimizer);

} // namespace cleave

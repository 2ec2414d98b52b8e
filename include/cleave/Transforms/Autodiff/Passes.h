//===- Passes.h - Building gradients ---------------------------------------===//
//
// Reverse-mode differentiation of kinds of layers. The passes are shells around
// the free functions declared here.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

/// Which arguments and results of a kind depend on what is trained.
struct Activity {
  llvm::SmallVector<bool> arguments, results;
};

/// The activity of every function with `nn.kind`, from the calls in the
/// module's entries: values loaded from parameters are active, and so is what
/// depends on them. Fails, with a diagnostic, where a sum over the whole batch, through which
/// no gradient goes, depends on them.
mlir::FailureOr<llvm::StringMap<Activity>> analyzeActivity(mlir::ModuleOp module);

/// Builds `@<kind>.joint` behind `kind`; see the pass description. Fails, with
/// a diagnostic at the operator, where an active operator has no gradient.
/// Returns the number of backward operators, or failure.
mlir::FailureOr<unsigned> differentiateKind(mlir::func::FuncOp kind, const Activity &activity);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/Autodiff/Passes.h.inc"

} // namespace cleave

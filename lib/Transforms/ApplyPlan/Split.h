//===- Split.h - A joint graph cut into forward and backward ---------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

namespace cleave {

/// Where an input of the backward function comes from.
struct BackwardInput {
  enum Source { Argument, Result, Saved } source;
  unsigned index;
};

/// The pieces that a kind is run in, as `nn.repeat` takes them.
struct Chunks {
  mlir::ArrayAttr along;
  llvm::SmallVector<int64_t> pieces, blocks;
};

/// The two halves of a kind and how a caller connects them.
struct SplitKind {
  mlir::func::FuncOp forward, backward;
  /// Where the halves take a piece of the tokens at a time.
  std::optional<Chunks> chunks;
  unsigned results = 0;
  llvm::SmallVector<BackwardInput> inputs;
  /// Positions of the results that have a gradient, and of the arguments that
  /// get one.
  llvm::SmallVector<int64_t> activeResults, activeArguments;

  /// Where gradients of weights are apart: what computes those of `weightArguments`
  /// from `weightInputs`, each an argument of the backward half or a value that it
  /// keeps, which are its results behind the gradients. Else null.
  mlir::func::FuncOp weights;
  struct WeightInput {
    bool isKept;
    unsigned index;
  };
  llvm::SmallVector<WeightInput> weightInputs;
  llvm::SmallVector<int64_t> weightArguments;
};

/// Splits `@k.joint` into `@k.forward(args) -> (results, saved…)` and
/// `@k.backward(inputs…, gradients of active results…) -> gradients of active
/// arguments`. Everything of the forward that the backward reads is saved; with
/// `saved`, only results of operators at those paths are, and the backward computes
/// again what else it needs, from them and from the arguments. Values along the
/// dimension `unsaved`, if it is not empty, are never saved, and what is made of them
/// always.
SplitKind splitJoint(mlir::func::FuncOp joint,
                     const std::optional<llvm::StringSet<>> &saved = std::nullopt,
                     llvm::StringRef unsaved = "");

/// Moves the gradients of parameters that are products of matrices, and nothing else
/// needs, from the backward half of `kind` to a third function `@k.weights`. `original`
/// is the kind itself.
void splitWeights(SplitKind &kind, mlir::func::FuncOp original);

} // namespace cleave

//===- Layers.h - The layers of a model, one by one ------------------------===//
//
// `@forward` calls a kind of layer for each layer, those of a repeat by one call.
// This is the list written out, for those who deal layers out to stages.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include <optional>

namespace cleave {

/// One layer: a call of its kind.
struct Layer {
  llvm::StringRef kind;

  /// A kept tensor that the call reads.
  struct Tensor {
    /// Of the operator that owns it, which may own those of other layers too.
    llvm::StringRef symbol;
    std::string name;
  };
  llvm::SmallVector<Tensor> tensors;
};

/// The layers in the order of `@forward`; nothing where the module has no such
/// function or more than `kMostLayers`.
inline constexpr int64_t kMostLayers = 4096;
std::optional<std::vector<Layer>> layersOf(mlir::ModuleOp model);

/// Multiply-adds for a token in the matrix products of `kind`. What depends on the
/// length of a sequence does not count.
double productsPerToken(mlir::func::FuncOp kind);

} // namespace cleave

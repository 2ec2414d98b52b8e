//===- ScalarText.h - single operations as C++ expressions ------*- C++ -*-===//
//
// The words of the emitted text: types, literals, and one expression for each
// arith or math operation on scalars. Knows nothing of kernels.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Operation.h"
#include "mlir/Support/LLVM.h"
#include <optional>
#include <string>

namespace cleave::cuda {

/// The C++ type of an element ("float", "bf16", "int", "bool"); `indexType` is the
/// text for `index`. Nothing for types that kernels do not compute with.
std::optional<std::string> typeText(mlir::Type type, llvm::StringRef indexType);

/// The literal of a scalar constant.
std::optional<std::string> literalText(mlir::Attribute value);

/// `op` on operands that are names, literals or in parentheses; nothing if there is
/// no such expression.
std::optional<std::string> expressionText(mlir::Operation *op, llvm::ArrayRef<std::string> operands,
                                          llvm::StringRef indexType);

/// What a reduction does with partial results: a type of the prelude, the neutral
/// element.
struct CombinerText {
  std::string type;
  std::string neutral;
};
std::optional<CombinerText> combinerText(mlir::Operation *combiner);

} // namespace cleave::cuda

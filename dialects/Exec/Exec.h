//===- Exec.h - The exec dialect -------------------------------------------===//
//
// The program of one rank as IR: memory, state, and lists of commands over
// addresses. See Exec.td for the idea and docs/Rationale/Exec.md for the reasons.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Dist/Dist.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include <array>

namespace cleave::exec {

/// What an `#exec.at` says, for arithmetic.
struct Address {
  mlir::StringAttr segment;
  int64_t offset = 0;
  int64_t bytes = 0;
  /// Bytes from one iteration, or layer, to the next.
  int64_t step = 0;
  /// Iterations after which it is back at `offset`; 0: it never is.
  int64_t period = 0;
};

/// Whether tensors of this type can be exchanged: f32, bf16, i32, i64.
bool isElementType(mlir::Type type);
/// Whether products are of elements of this type: f32, bf16.
bool isProductType(mlir::Type type);
/// Bytes of one element.
inline int64_t elementBytes(mlir::Type type) { return type.getIntOrFloatBitWidth() / 8; }
/// Bytes of a tensor of known sizes.
inline int64_t tensorBytes(mlir::Type type) {
  auto tensor = mlir::cast<mlir::RankedTensorType>(type);
  return tensor.getNumElements() * elementBytes(tensor.getElementType());
}

} // namespace cleave::exec

#include "dialects/Exec/ExecDialect.h.inc"
#include "dialects/Exec/ExecEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Exec/ExecAttrs.h.inc"
#include "dialects/Exec/ExecInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/Exec/ExecOps.h.inc"

namespace cleave::exec {

/// How many of a pipeline's first stages the programs in `module` survey.
int64_t surveyedStages(mlir::ModuleOp module);

} // namespace cleave::exec

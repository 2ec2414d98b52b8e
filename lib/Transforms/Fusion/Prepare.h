//===- Prepare.h - Operators in the form that grouping wants ---------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave::fusion {

/// Does large reductions in two stages, makes one operator for each kind of rows
/// among an operator's results, and copies constants to their readers.
void prepare(mlir::func::FuncOp function);

} // namespace cleave::fusion

//===- Prepare.h - Operators in the form that grouping wants ---------------===//
#pragma once

#include "mlir/IR/Block.h"

namespace cleave::fusion {

/// Does large reductions in two stages, makes one operator for each kind of rows
/// among an operator's results, and copies constants to their readers.
void prepare(mlir::Block &block);

} // namespace cleave::fusion

//===- Exchanges.h - Operators of dist as commands -------------------------===//
#pragma once

#include "lib/Target/Image/StateLayout.h"

namespace cleave::image {

/// Adds the command for an operator that moves blocks between ranks (or slices
/// one). False, and nothing added, if `op` is none. One in a bucket is of the group beside.
bool addExchange(mlir::OpBuilder &b, mlir::Operation *op, exec::Address source,
                 exec::Address target, StateLayout &layout, llvm::StringRef label);

} // namespace cleave::image

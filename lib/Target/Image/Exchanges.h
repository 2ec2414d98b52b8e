//===- Exchanges.h - Operators of dist as runtime commands -----------------===//
#pragma once

#include "lib/Target/Image/StateLayout.h"

namespace cleave::image {

/// The command for an operator that moves blocks between ranks (or slices one),
/// or nullopt if `op` is none.
std::optional<rt::Command> exchangeOf(mlir::Operation *op, rt::Region source, rt::Region target,
                                      StateLayout &layout);

} // namespace cleave::image

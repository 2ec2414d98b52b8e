//===- Register.h - Everything Cleave knows, for tools ---------------------===//
//
// The one list of our dialects and passes. Every tool registers through it, so
// that a dialect or pass that is added here is known to all of them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/DialectRegistry.h"

namespace cleave {

/// Our dialects and the upstream ones, with upstream's extensions.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Our passes and pipelines, by their flags, and the upstream ones.
void registerAllPasses();

} // namespace cleave

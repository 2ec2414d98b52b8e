//===- Passes.h - Passes of the interpreter --------------------------------===//
//
// Makes the interpreter usable from IR alone, so that lit tests can check
// numbers. Programs use Interpreter.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {
#define GEN_PASS_DECL
#include "lib/Interpreter/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Interpreter/Passes.h.inc"
} // namespace cleave

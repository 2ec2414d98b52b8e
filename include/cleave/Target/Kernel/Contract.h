//===- Contract.h - Attributes of kernel functions --------------*- C++ -*-===//
//
// The attributes that make a `func.func` a kernel, for every target. What a kernel
// may hold is written in cleave/Target/CPU/KernelCompiler.h.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

namespace cleave::target {

/// Attribute of a kernel: how many trailing arguments are destinations (i64).
inline constexpr llvm::StringLiteral kOutputsAttr = "cleave.outputs";
/// Attribute of a kernel: extent of the outer parallel dimension (i64).
inline constexpr llvm::StringLiteral kSpaceAttr = "cleave.space";

} // namespace cleave::target

//===- TextFiles.h - CUDA text that kernels are made with -------*- C++ -*-===//
//
// The files of Text/, as they are: functions that a kernel of its sizes calls.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/StringRef.h"

namespace cleave::cuda {

/// The wrappers around inline assembly, the only place that has any.
extern const llvm::StringLiteral ptxText;
extern const llvm::StringLiteral productText;

} // namespace cleave::cuda

//===- MapLaunches.h - a program's kernels on a GPU -------------*- C++ -*-===//
//
// The decision which kernels of a program a GPU launches, and in which grid: recorded
// in `exec.launch`, whose extent is then a number of blocks with `threads` each.
// Kernels that the text has no form of (attention, for now) keep the processor's form.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Target/CUDA/EmitText.h"

namespace cleave::cuda {

struct MapOptions {
  /// Whether products are the libraries' (cuBLASLt's on a GPU, the processor's on the emulated
  /// device), or kernels of the text too.
  bool libraries = true;
};

/// Prints the fused kernels of `module`, which is in `exec`, and maps their launches to the text's
/// grids. Errors: those of `emitCuda`.
mlir::FailureOr<Text> mapLaunches(mlir::ModuleOp module, const MapOptions &options = {});

} // namespace cleave::cuda

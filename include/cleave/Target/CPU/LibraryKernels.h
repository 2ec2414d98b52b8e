//===- LibraryKernels.h - Generators of kernels, by name -------------------===//
//
// Finds the generator that an operator asks for (`LibraryKernelOpInterface`) and
// adds the kernel for its sizes to a module; equal requests share one kernel.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Target/CPU/AttentionKernel.h"
#include "dialects/Interfaces/LibraryKernel.h"

namespace cleave::cpu {

/// Adds the kernel that `request` describes to `module`, or finds it there.
/// Fails, with a diagnostic at the module, for a name that has no generator.
mlir::FailureOr<AttentionKernel>
addLibraryKernel(mlir::ModuleOp module, const LibraryKernel &request, const Profile &profile);

} // namespace cleave::cpu

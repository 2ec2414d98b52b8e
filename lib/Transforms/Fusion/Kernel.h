//===- Kernel.h - The function of one group --------------------------------===//
#pragma once

#include "Rows.h"
#include "cleave/Transforms/Fusion/Fusion.h"

namespace cleave::fusion {

/// Builds the kernel of `group` (its operators, inputs and outputs are known) as a
/// function that stands nowhere yet, called "kernel".
mlir::OwningOpRef<mlir::func::FuncOp> buildKernel(const KernelGroup &group, const Rows &rows);

/// Fills in extent, grain, bytes and flops from the built kernel.
void measure(KernelGroup &group, const Rows &rows, mlir::func::FuncOp kernel);

} // namespace cleave::fusion

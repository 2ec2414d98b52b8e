//===- Programs.h - What ranks run, as a whole -------------------------------===//
//
// A program's entries, and the kernels that several programs of a module share. Internal to
// the image.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Exec/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave::image {

/// The function of an entry, of stage `stage` if that is not negative; null where there
/// is none.
mlir::func::FuncOp functionOf(mlir::ModuleOp module, exec::EntryKind kind, int64_t stage);

/// A program with empty entries: those that `module` has functions for, and those that every
/// program has.
exec::ProgramOp createProgram(mlir::ModuleOp module);

/// Moves `kernels` to `module`. One that has the name of something there gets a new one, by which
/// the module's programs then launch it.
void addKernels(mlir::ModuleOp kernels, mlir::ModuleOp module);

} // namespace cleave::image

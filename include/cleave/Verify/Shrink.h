//===- Shrink.h - A small case of a large one ------------------------------===//
#pragma once

#include "cleave/Frontend/Shrink.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace cleave {

/// A model made small enough to be interpreted.
struct SmallCase {
  frontend::ModelDescription description;
  /// Imported and differentiated.
  mlir::OwningOpRef<mlir::ModuleOp> model;
  /// Sizes of the model by key of its config, then `sequence_length`, `global_batch` and
  /// `micro_batches`, as they were and are; those that stay are not listed.
  std::vector<frontend::ShrunkModel::Change> changes;
};

/// Shrinks `description`, whose differentiated graph is `model`, as far as the divisions of
/// `plans` can be kept, and carries the plans over: they are changed in place and checked.
rt::StatusOr<SmallCase> shrinkCase(const frontend::ModelDescription &description,
                                   mlir::ModuleOp model, llvm::ArrayRef<mlir::ModuleOp> plans);

} // namespace cleave

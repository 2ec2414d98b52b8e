//===- Notes.h - The attributes that pass from step to step ----------------===//
//
// The three steps of Sharding.h speak to each other through attributes, which a
// person may write too. Each step first checks what it is given, so that a step
// left out or a slip of the pen is an error at the operator, never a crash.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Dist/Dist.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// The module's mesh, which must be its only one and called @mesh.
llvm::FailureOr<dist::Mesh> findMesh(mlir::ModuleOp module);

/// What propagation starts from: functions of one block on ranked tensors;
/// `dist.sharding`, `dist.factors` and `dist.<slot>`, where present, fit the
/// mesh and the values.
llvm::LogicalResult checkGiven(mlir::ModuleOp module, const dist::Mesh &mesh);

/// What propagation leaves: besides that, every argument and result of a function
/// has `dist.sharding`, every operator `dist.in` and `dist.out`, and what repeats a
/// block `dist.arguments` for those of the block.
llvm::LogicalResult checkNotes(mlir::ModuleOp module, const dist::Mesh &mesh);

/// Calls `each` for every operator of `block` and of the blocks that repeat in it,
/// until one fails.
llvm::LogicalResult
forEachOperation(mlir::Block &block,
                 llvm::function_ref<llvm::LogicalResult(mlir::Operation *)> each);

/// What a value that `user` needs is called in reports: the path of what makes it, else
/// that of its first user in the block, so that equal reshards have one name; "*" stands
/// for a layer's number. Null where nothing has a path.
mlir::StringAttr reportedName(mlir::Value value, mlir::Operation *user);

/// Writes down where the value of a collective lies before and after it.
void noteExchange(mlir::Operation *exchange, dist::ShardingAttr from, dist::ShardingAttr to);

/// Whether `attribute` is a note of an earlier step that an operator of one rank's program does
/// not keep.
bool isPassing(mlir::NamedAttribute attribute);

/// Where a value lies, by what its definition wrote down (notes are checked).
dist::ShardingAttr placementOf(mlir::Value value);

} // namespace cleave

//===- Sharding.h - From assigned factors to a program for one rank --------===//
//
// Each step works on what the one before wrote down: propagate decides where
// every value lies, insertReshards makes the changes of placement explicit, narrowMoves
// puts those where they move fewer bytes, and partition rewrites the program for one
// rank. All operators are known by their interfaces alone.
//
// Attributes: `dist.factors` (operator: factor → axes), `dist.sharding`
// (argument or result of a function), `dist.as` = [@function, n] (argument: it lies as
// that function leaves result n), `dist.<slot>` (parameter), `dist.in` and
// `dist.out` (operator: one sharding for each operand and result). What partition
// leaves behind for reports: `dist.from` and `dist.to` (collective: where its value lies
// before and after it), and `nn.path` (collective: what its value is called).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "dialects/Dist/Dist.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

/// Writes `dist.in` and `dist.out` on every operator. Fails where the module has
/// no mesh called @mesh, where attributes do not fit it, or where an operator
/// has no sharding rule.
llvm::LogicalResult propagateShardings(mlir::ModuleOp module);

/// Returns how many reshards were inserted; fails where `propagateShardings` has
/// not been.
llvm::FailureOr<unsigned> insertReshards(mlir::ModuleOp module);

/// Lets values that are rounded behind a reshard, or widened before one, be moved as the
/// narrower ones; returns how many reshards that concerns. Fails as `insertReshards`.
llvm::FailureOr<unsigned> narrowMoves(mlir::ModuleOp module);

/// Rewrites the module for one rank. Fails, and changes nothing, where notes or
/// reshards are missing or shapes are not static.
llvm::LogicalResult partition(mlir::ModuleOp module);

/// The collectives that take one rank's block `value` of a tensor of type
/// `whole` from sharding `source` to `target`. Each that sends something says
/// where the value lies before and after it (`dist.from`, `dist.to`), and has `path`, if
/// that is not null, as `nn.path`.
mlir::Value lowerReshard(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                         mlir::RankedTensorType whole, dist::ShardingAttr source,
                         dist::ShardingAttr target, const dist::Mesh &mesh,
                         mlir::StringAttr path = {});

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/Sharding/Passes.h.inc"

} // namespace cleave

//===- Chunks.h - How many pieces the last kind runs in --------------------===//
#pragma once

#include "dialects/Plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// The largest value that a kind which can run in pieces may keep between its
/// forward and backward, in bytes of one rank: small beside what a training step
/// keeps, large beside what makes a matrix product efficient.
inline constexpr int64_t kLargestPiece = int64_t(64) << 20;

/// In how many pieces, `pieces` or a few more, `kind` can go through the dimension `dim`
/// of a parameter if they must be equal: where the parameter's values or gradient are
/// cut over the ranks of the batch, or summed over them as they come (overlap), they
/// pass through memory whole. Nothing if pieces may be uneven.
std::optional<int64_t> equalPieces(plan::SolutionOp solution, mlir::func::FuncOp kind,
                                   llvm::StringRef dim, int64_t pieces);

/// The kind that makes the result of `@forward`, if it makes nothing else; or empty.
llvm::StringRef lastKind(mlir::ModuleOp model);

/// Writes a `plan.chunk` behind the last entry of `solution` (whose batch, axes,
/// layout and assignments are written) for each kind of `model` that ends it, can run
/// in pieces and would keep a larger value: pieces of the tokens where they are equal
/// on all ranks, else of another dimension. Needs joint graphs; without, writes nothing.
void writeChunks(plan::SolutionOp solution, mlir::ModuleOp model, int64_t largest = kLargestPiece);

} // namespace cleave

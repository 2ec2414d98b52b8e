//===- Sizes.h - Named sizes become constants ------------------------------===//
//
// An imported graph is written for any batch and sequence length: their
// dimensions are `?`. Once they are known, all types are made static together.
// This only replaces sizes; it never splits a dimension over ranks.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include <cstdint>
#include <map>
#include <string>

namespace cleave {

/// Replaces every `?` of a dimension called `name` by `sizes[name]` elements,
/// in all types of `root` (a module or a function), those in attributes and
/// signatures included. Sizes must be positive; a size that is already static stays.
llvm::LogicalResult specializeSizes(mlir::Operation *root,
                                    const std::map<std::string, int64_t> &sizes);

#define GEN_PASS_DECL
#include "lib/Transforms/Sizes/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "lib/Transforms/Sizes/Passes.h.inc"

} // namespace cleave

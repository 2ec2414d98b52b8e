//===- Origins.h - Which operator of a model computes a value --------------===//
//
// The operators of the joint graphs get a number each before a plan is applied. It is
// kept in their locations, which passes hand on to what they make of an operator, so that
// no pass sees a difference. Programs of all plans for the model then speak of the same
// operators.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// An operator of a joint graph.
struct Origin {
  /// Kind of layer, path and name of the operator ("block", "mlp.down", "nn.contract").
  std::string kind, path, op;
  /// What it reads: the number of the operator that makes it, or -1 and the name of an
  /// argument, where it has one.
  std::vector<std::pair<int64_t, std::string>> operands;
};

/// Numbers the operators with a path in the joint graphs of a differentiated model, from
/// 0; the list has them by number.
std::vector<Origin> numberOperators(mlir::ModuleOp model);

/// The number that `op` was made from, if any.
std::optional<int64_t> originOf(mlir::Operation *op);

} // namespace cleave

//===- Precision.h - Which paths compute and store in bf16 -----------------===//
#pragma once

#include "cleave/Planner/Planner.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// Writes at `b` a `plan.precision` for each path of `model` that is bf16 by the policy
/// of this planner, which asks operators by their interfaces alone:
///
/// - matrix products and attention compute in bf16, but not those from which integers are
///   made (the scores by which experts are chosen);
/// - results are stored in bf16, but not terms of what passes between layers (the
///   residual stream, also where a dimension is summed), what is made of such scores
///   alone, and nothing in the kind that ends the model, whose loss is made in f32 and
///   whose values live for a piece only.
///
/// `request` says whether this is so of all paths, and pins say it of some.
/// `plan.unknown_path` if a pin names none.
rt::Status writePrecision(mlir::OpBuilder &b, mlir::Location loc, mlir::ModuleOp model,
                          const PlanRequest &request);

} // namespace cleave

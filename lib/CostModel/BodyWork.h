//===- BodyWork.h - What operators compute for an element -----------------------===//
#pragma once

#include "cleave/CostModel/Work.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"

namespace cleave::cost {

/// Counts in the bodies that operators of a kind's function build for kernels, and in those of the
/// gradients that they build. All is built aside and thrown away.
class BodyCounter {
public:
  explicit BodyCounter(mlir::func::FuncOp function);

  /// For each element of the first result of `op`, an operator of the function.
  std::vector<BodyLoop> forward(mlir::Operation *op);
  std::vector<BodyLoop> backward(mlir::Operation *op);

private:
  mlir::OwningOpRef<mlir::ModuleOp> aside;
  mlir::IRMapping copies;
};

} // namespace cleave::cost

//===- SplitWeights.cpp - Gradients of weights as a part of their own ------===//
//
// A schedule may put off what no other stage waits for: products that end in the
// gradient of a parameter. What is computed together with the gradient of an input (of
// a norm, a bias) stays with it.
//
//===----------------------------------------------------------------------===//

#include "dialects/Interfaces/Interfaces.h"
#include "lib/Transforms/ApplyPlan/Split.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
namespace cleave {

void splitWeights(SplitKind &kind, func::FuncOp original) {
  func::FuncOp backward = kind.backward;
  Block &body = backward.getBody().front();
  Operation *end = body.getTerminator();
  SmallVector<Operation *> moved;
  SmallVector<Value> gradients;
  SmallVector<int64_t> active;
  for (auto [argument, gradient] : llvm::zip(kind.activeArguments, end->getOperands())) {
    Operation *op = gradient.getDefiningOp();
    if (original.getArgAttr(argument, "nn.parameter") && gradient.hasOneUse() &&
        isa_and_nonnull<ContractionOpInterface>(op)) {
      moved.push_back(op);
      kind.weightArguments.push_back(argument);
    } else {
      gradients.push_back(gradient);
      active.push_back(argument);
    }
  }
  if (moved.empty())
    return;
  kind.activeArguments = active;
  llvm::MapVector<Value, unsigned> read;
  unsigned kept = 0;
  for (Operation *op : moved)
    for (Value v : op->getOperands())
      if (read.insert({v, read.size()}).second) {
        auto argument = dyn_cast<BlockArgument>(v);
        kind.weightInputs.push_back({!argument, argument ? argument.getArgNumber() : kept});
        if (!argument) {
          gradients.push_back(v);
          ++kept;
        }
      }

  OpBuilder b(backward.getContext());
  b.setInsertionPointAfter(backward);
  SmallVector<Value> inputs;
  for (auto &[v, number] : read)
    inputs.push_back(v);
  SmallVector<Value> results =
      llvm::map_to_vector(moved, [](Operation *op) -> Value { return op->getResult(0); });
  const std::string name =
      (backward.getName().drop_back(StringRef(".backward").size()) + ".weights").str();
  kind.weights = func::FuncOp::create(
      b, backward.getLoc(), name,
      b.getFunctionType(TypeRange(ValueRange(inputs)), TypeRange(ValueRange(results))));
  kind.weights.setPrivate();
  Block *block = kind.weights.addEntryBlock();
  b.setInsertionPointToStart(block);
  IRMapping map;
  map.map(inputs, block->getArguments());
  for (Operation *op : moved)
    b.clone(*op, map);
  func::ReturnOp::create(b, backward.getLoc(),
                         llvm::map_to_vector(results, [&](Value v) { return map.lookup(v); }));
  end->setOperands(gradients);
  backward.setType(
      b.getFunctionType(backward.getArgumentTypes(), TypeRange(ValueRange(gradients))));
  for (Operation *op : moved)
    op->erase();
}

} // namespace cleave

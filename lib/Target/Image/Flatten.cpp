//===- Flatten.cpp - An entry without calls --------------------------------===//

#include "lib/Target/Image/Flatten.h"
#include "dialects/NN/NN.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
namespace cleave::image {

static LogicalResult inlineCall(func::CallOp call) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  if (!callee || callee.isExternal())
    return call.emitOpError("calls a function without a body");
  OpBuilder b(call);
  IRMapping map;
  map.map(callee.getArguments(), call.getOperands());
  for (Operation &op : callee.getBody().front().without_terminator())
    b.clone(op, map);
  Operation *end = callee.getBody().front().getTerminator();
  for (auto [result, value] : llvm::zip(call.getResults(), end->getOperands()))
    result.replaceAllUsesWith(map.lookup(value));
  call.erase();
  return success();
}

LogicalResult flattenCalls(func::FuncOp entry) {
  // A callee may call in turn; layers do not recurse.
  for (int depth = 0; depth < 8; ++depth) {
    SmallVector<func::CallOp> calls;
    entry.walk([&](func::CallOp call) { calls.push_back(call); });
    if (calls.empty())
      return success();
    for (func::CallOp call : calls)
      if (failed(inlineCall(call)))
        return failure();
  }
  return entry.emitError("calls functions more than 8 deep");
}

void expandAccumulates(func::FuncOp entry) {
  SmallVector<nn::AccumulateOp> ops;
  entry.walk([&](nn::AccumulateOp op) { ops.push_back(op); });
  for (nn::AccumulateOp op : ops) {
    Value value = op.getValue();
    if (value.hasOneUse() && isa_and_nonnull<ContractionOpInterface>(value.getDefiningOp()))
      continue;
    OpBuilder b(op);
    Location loc = op.getLoc();
    Value old = nn::LoadOp::create(b, loc, value.getType(), op.getParameterAttr(), op.getSlotAttr(),
                                   op.getRowsAttr());
    Value sum = nn::AddOp::create(b, loc, value.getType(), old, value);
    nn::StoreOp::create(b, loc, sum, op.getParameterAttr(), op.getSlotAttr(), op.getRowsAttr());
    op.erase();
  }
}

} // namespace cleave::image

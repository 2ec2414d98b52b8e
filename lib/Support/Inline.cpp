//===- Inline.cpp - A function's body in place of its call -----------------===//

#include "cleave/Support/Inline.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
namespace cleave {

FailureOr<SmallVector<Operation *>> inlineCall(func::CallOp call) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  if (!callee || callee.isExternal())
    return call.emitOpError("calls a function without a body");
  Block &body = callee.getBody().front();
  OpBuilder b(call);
  IRMapping map;
  map.map(callee.getArguments(), call.getOperands());
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    ops.push_back(b.clone(op, map));
  for (auto [result, value] : llvm::zip(call.getResults(), body.getTerminator()->getOperands()))
    result.replaceAllUsesWith(map.lookup(value));
  call.erase();
  return ops;
}

} // namespace cleave

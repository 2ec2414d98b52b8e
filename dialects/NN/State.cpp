//===- State.cpp - Parameters and what is kept across steps ----------------===//

#include "dialects/NN/NN.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

LogicalResult ParameterOp::verify() {
  if (!isNamedTensor(getType()))
    return emitOpError("needs a tensor type with named dimensions");
  if (!getTensorType().hasStaticShape())
    return emitOpError("needs a static shape");
  if (HostTensor::count(getFileShape()) != getTensorType().getNumElements())
    return emitOpError("has another number of elements than its shape in files");
  return success();
}

/// The symbol must be a parameter of the value's type, or a scalar.
static LogicalResult verifyState(Operation *op, SymbolTableCollection &symbols,
                                 FlatSymbolRefAttr name, RankedTensorType type) {
  Operation *target = symbols.lookupNearestSymbolFrom(op, name);
  if (isa_and_nonnull<ScalarOp>(target))
    return type.getRank() == 0 ? success() : op->emitOpError("addresses a scalar with a tensor");
  if (!isa_and_nonnull<ParameterOp>(target))
    return op->emitOpError() << "names no parameter: " << name;
  return success();
}

LogicalResult LoadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyState(*this, symbols, getParameterAttr(), getType());
}
LogicalResult StoreOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyState(*this, symbols, getParameterAttr(), getValue().getType());
}
LogicalResult AccumulateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyState(*this, symbols, getParameterAttr(), getValue().getType());
}

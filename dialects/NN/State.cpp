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

/// The symbol must be a parameter of the value's dimensions (their sizes are those
/// of one rank's block once the program is cut), or a scalar.
static LogicalResult verifyState(Operation *op, SymbolTableCollection &symbols,
                                 FlatSymbolRefAttr name, RankedTensorType type) {
  Operation *target = symbols.lookupNearestSymbolFrom(op, name);
  if (isa_and_nonnull<ScalarOp>(target))
    return type.getRank() == 0 ? success() : op->emitOpError("addresses a scalar with a tensor");
  auto parameter = dyn_cast_or_null<ParameterOp>(target);
  if (!parameter)
    return op->emitOpError() << "names no parameter: " << name;
  if (dimNames(parameter.getTensorType()) != dimNames(type))
    return op->emitOpError() << "has the type " << type << " where its parameter is a "
                             << parameter.getTensorType();
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

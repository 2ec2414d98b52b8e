//===- State.cpp - Parameters and what is kept across steps ----------------===//

#include "dialects/Interfaces/LayerNames.h"
#include "dialects/NN/NN.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

LogicalResult ParameterOp::verify() {
  if (!isNamedTensor(getType()))
    return emitOpError("needs a tensor type with named dimensions");
  if (!getTensorType().hasStaticShape())
    return emitOpError("needs a static shape");
  bool named = namesLayers(getSymName()), marked = getSymName().contains("{}");
  if (getSlices() != marked || (marked && getTensorType().getRank() == 0))
    return emitOpError("has \"{}\" in its name if, and only if, the slices of its first dimension "
                       "are tensors in files");
  if (auto layers = getLayers();
      layers ? layers->size() != 3 || (*layers)[0] < 0 || (*layers)[1] < 1 || (*layers)[2] < 1
             : named)
    return emitOpError("needs layers = [first, count, step], of which only first may be 0");
  else if (layers && !named)
    return emitOpError("stands for the tensors of several layers: its name needs their numbers in "
                       "braces");
  int64_t tensors = marked ? getTensorType().getDimSize(0) : 1;
  if (HostTensor::count(getFileShape()) * tensors != getTensorType().getNumElements())
    return emitOpError("has another number of elements than its shape in files");
  return success();
}

std::string ParameterOp::getTensorName(int64_t index) {
  auto layers = getLayers();
  return layers ? nameInLayer(getSymName(), (*layers)[0] + index * (*layers)[2])
                : getSymName().str();
}

std::string cleave::nn::tensorName(Operation *op, FlatSymbolRefAttr symbol, int64_t iteration) {
  auto parameter = SymbolTable::lookupNearestSymbolFrom<ParameterOp>(op, symbol);
  auto repeat = op->getParentOfType<RepeatOp>();
  if (!parameter)
    return symbol.getValue().str();
  // Outside of repeats, that of the one layer there is, if it is of layers.
  if (!repeat)
    return parameter.getTensorName(0);
  return parameter.getTensorName(cast<RepeatOpInterface>(*repeat).getSliceIndex(iteration));
}

std::optional<StateRows> cleave::nn::rowsOf(std::optional<ArrayRef<int64_t>> rows) {
  if (!rows)
    return std::nullopt;
  return StateRows{(*rows)[0], (*rows)[1], (*rows)[2]};
}

Operation *cleave::nn::buildForRows(OpBuilder &b, Operation *op, ValueRange operands,
                                    TypeRange types, StateRows rows) {
  OperationState state(op->getLoc(), op->getName(), operands, types, op->getAttrs());
  state.attributes.set("rows", b.getDenseI64ArrayAttr({rows.begin, rows.step, rows.all}));
  return b.create(state);
}

/// All rows that `op` means of a tensor are there, in every iteration.
static LogicalResult verifyRows(Operation *op, std::optional<ArrayRef<int64_t>> list,
                                RankedTensorType type) {
  if (!list)
    return success();
  if (list->size() != 3 || type.getRank() == 0)
    return op->emitOpError("needs rows = [begin, step, all], of a tensor that has rows");
  StateRows rows = *rowsOf(list);
  auto repeat = op->getParentOfType<RepeatOp>();
  int64_t last = rows.begin + rows.step * ((repeat ? repeat.getIterations() : 1) - 1);
  if (rows.begin < 0 || rows.step < 0 || last + type.getDimSize(0) > rows.all)
    return op->emitOpError() << "means " << type.getDimSize(0) << " rows from " << last << " of "
                             << rows.all;
  return success();
}

/// The symbol must be a parameter of the value's dimensions (their sizes are those
/// of one rank's block once the program is cut), or an accumulator of them.
static LogicalResult verifyState(Operation *op, SymbolTableCollection &symbols,
                                 FlatSymbolRefAttr name, RankedTensorType type,
                                 std::optional<ArrayRef<int64_t>> rows) {
  Operation *target = symbols.lookupNearestSymbolFrom(op, name);
  if (auto accumulator = dyn_cast_or_null<AccumulatorOp>(target))
    return dimNames(accumulator.getTensorType()) == dimNames(type)
               ? success()
               : op->emitOpError() << "has the type " << type << " where its accumulator is a "
                                   << accumulator.getTensorType();
  auto parameter = dyn_cast_or_null<ParameterOp>(target);
  if (!parameter)
    return op->emitOpError() << "names no parameter: " << name;
  auto repeat = op->getParentOfType<RepeatOp>();
  if (parameter.getLayers() && (repeat ? repeat.getIterations() : 1) != parameter.getCount())
    return op->emitOpError() << "addresses the tensors of " << parameter.getCount()
                             << " layers, and stands in no repeat of as many iterations";
  if (dimNames(parameter.getTensorType()) != dimNames(type))
    return op->emitOpError() << "has the type " << type << " where its parameter is a "
                             << parameter.getTensorType();
  if (rows && parameter.getLayers())
    return op->emitOpError("means rows of the tensors of several layers");
  return verifyRows(op, rows, type);
}

LogicalResult LoadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyState(*this, symbols, getParameterAttr(), getType(), getRows());
}
LogicalResult StoreOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyState(*this, symbols, getParameterAttr(), getValue().getType(), getRows());
}
LogicalResult AccumulateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyState(*this, symbols, getParameterAttr(), getValue().getType(), getRows());
}

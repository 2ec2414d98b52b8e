//===- State.cpp - State store and constants of the interpreter ------------===//

#include "cleave/Interpreter/Interpreter.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace cleave;

const RankTensors *StateStore::find(StringRef symbol, StringRef slot) const {
  auto it = tensors.find({symbol.str(), slot.str()});
  return it == tensors.end() ? nullptr : &it->second;
}

void StateStore::set(StringRef symbol, StringRef slot, RankTensors value) {
  tensors[{symbol.str(), slot.str()}] = std::move(value);
}

LogicalResult StateStore::accumulate(StringRef symbol, StringRef slot, const RankTensors &value) {
  auto [it, fresh] = tensors.try_emplace({symbol.str(), slot.str()}, value);
  if (fresh)
    return success();
  RankTensors &sum = it->second;
  if (sum.size() != value.size())
    return failure();
  for (size_t rank = 0; rank < sum.size(); ++rank)
    if (sum[rank].shape != value[rank].shape)
      return failure();
  for (size_t rank = 0; rank < sum.size(); ++rank)
    for (size_t i = 0; i < sum[rank].data.size(); ++i)
      sum[rank].data[i] += value[rank].data[i];
  return success();
}

void StateStore::clearSlot(StringRef slot) {
  std::erase_if(tensors, [&](const auto &entry) { return entry.first.second == slot; });
}

FailureOr<HostTensor> cleave::toHostTensor(DenseElementsAttr elements) {
  HostTensor tensor(elements.getType().getShape());
  Type element = elements.getElementType();
  size_t position = 0;
  if (isa<FloatType>(element)) {
    for (APFloat value : elements.getValues<APFloat>()) {
      bool lossy = false;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
      tensor.data[position++] = value.convertToDouble();
    }
    return tensor;
  }
  if (element.isIntOrIndex()) {
    bool isSigned = !element.isUnsignedInteger() && !element.isInteger(1);
    for (const APInt &value : elements.getValues<APInt>())
      tensor.data[position++] = value.roundToDouble(isSigned);
    return tensor;
  }
  return failure();
}

DenseElementsAttr cleave::toAttribute(MLIRContext *context, const HostTensor &tensor) {
  auto type = RankedTensorType::get(tensor.shape, Float64Type::get(context));
  return DenseElementsAttr::get(type, ArrayRef<double>(tensor.data));
}

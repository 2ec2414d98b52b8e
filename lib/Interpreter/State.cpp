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

RankTensors cleave::takeRows(const RankTensors &tensors, int64_t begin, int64_t count) {
  RankTensors out;
  for (const HostTensor &whole : tensors) {
    SmallVector<int64_t> shape(whole.shape);
    int64_t row = whole.size() / shape[0];
    shape[0] = count;
    std::copy_n(whole.data.begin() + begin * row, count * row,
                out.emplace_back(shape).data.begin());
  }
  return out;
}

RankTensors cleave::spreadRows(const RankTensors &tensors, int64_t begin, int64_t all) {
  RankTensors out;
  for (const HostTensor &part : tensors) {
    SmallVector<int64_t> shape(part.shape);
    int64_t row = part.size() / shape[0];
    shape[0] = all;
    llvm::copy(part.data, out.emplace_back(shape, 0.0).data.begin() + begin * row);
  }
  return out;
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

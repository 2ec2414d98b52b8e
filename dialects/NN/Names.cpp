//===- Names.cpp - Dimension names and the rules that follow from them -----===//

#include "dialects/NN/NN.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
namespace cleave::nn {

bool isNamedTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && (tensor.getRank() == 0 || isa_and_nonnull<DimsAttr>(tensor.getEncoding()));
}

ArrayRef<StringAttr> dimNames(Type type) {
  auto dims = dyn_cast_or_null<DimsAttr>(cast<RankedTensorType>(type).getEncoding());
  return dims ? dims.getNames() : ArrayRef<StringAttr>();
}

int findDim(Type type, StringRef name) {
  auto dims = dyn_cast_or_null<DimsAttr>(cast<RankedTensorType>(type).getEncoding());
  return dims ? dims.find(name) : -1;
}

RankedTensorType namedTensor(Type element, ArrayRef<int64_t> shape, ArrayRef<StringAttr> names) {
  Attribute encoding;
  if (!shape.empty())
    encoding = DimsAttr::get(element.getContext(), names);
  return RankedTensorType::get(shape, element, encoding);
}

RankedTensorType namedTensor(Type element, ArrayRef<int64_t> shape, ArrayRef<StringRef> names) {
  SmallVector<StringAttr> attrs;
  for (StringRef n : names)
    attrs.push_back(StringAttr::get(element.getContext(), n));
  return namedTensor(element, shape, attrs);
}

RankedTensorType withElement(RankedTensorType type, Type element) {
  return RankedTensorType::get(type.getShape(), element, type.getEncoding());
}

ShardingRule ruleByNames(Operation *op) {
  ShardingRule rule;
  llvm::StringMap<int> byName;
  auto add = [&](Type type, SmallVector<SmallVector<int>> &list) {
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<int> dims;
    for (auto [name, size] : llvm::zip(dimNames(tensor), tensor.getShape())) {
      auto [it, fresh] = byName.try_emplace(name.getValue(), rule.factors.size());
      if (fresh)
        rule.factors.push_back({name.getValue().str(), size, true, std::nullopt, std::nullopt});
      dims.push_back(it->second);
    }
    list.push_back(dims);
  };
  for (Type t : op->getOperandTypes())
    add(t, rule.operands);
  for (Type t : op->getResultTypes())
    add(t, rule.results);
  for (auto [i, factor] : llvm::enumerate(rule.factors)) {
    bool everywhere = llvm::all_of(rule.results, [&](const SmallVector<int> &dims) {
      return llvm::is_contained(dims, static_cast<int>(i));
    });
    if (!everywhere) {
      factor.reduction = ReductionKind::Sum;
      factor.neutral = 0.0;
    }
  }
  return rule;
}

void setNeutralOperand(ShardingRule &rule, int operand) {
  for (Factor &factor : rule.factors)
    if (factor.neutral)
      factor.neutralOperand = operand;
}

void keepWhole(ShardingRule &rule, Type type) {
  for (StringAttr name : dimNames(type))
    if (int f = rule.find(name.getValue()); f >= 0)
      rule.factors[f].shardable = false;
}

LogicalResult verifyDims(Operation *op, ValueRange values, ArrayRef<StringAttr> names,
                         StringRef what) {
  for (Value v : values)
    if (dimNames(v) != names) {
      InFlightDiagnostic error = op->emitOpError() << "needs " << what << " of dimensions [";
      llvm::interleaveComma(names, error, [&](StringAttr n) { error << n.getValue(); });
      return error << "], not " << v.getType();
    }
  return success();
}

LogicalResult verifySizesByName(Operation *op, TypeRange types) {
  llvm::StringMap<int64_t> sizes;
  for (Type type : types) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      continue;
    for (auto [name, size] : llvm::zip(dimNames(tensor), tensor.getShape())) {
      auto [it, fresh] = sizes.try_emplace(name.getValue(), size);
      if (!fresh && it->second != size)
        return op->emitOpError() << "has two sizes for dimension '" << name.getValue() << "'";
    }
  }
  return success();
}

LogicalResult verifySizesByName(Operation *op) {
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  return verifySizesByName(op, types);
}

} // namespace cleave::nn

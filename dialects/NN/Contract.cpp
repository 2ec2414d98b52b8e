//===- Contract.cpp - Contractions, sums, stacks ---------------------------===//

#include "dialects/NN/NN.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

/// Strides of `tensor`'s elements along each name of `names` (0: not there).
static SmallVector<int64_t> stridesByName(Type type, const HostTensor &tensor,
                                          ArrayRef<StringAttr> names) {
  SmallVector<int64_t> own = tensor.strides(), out;
  for (StringAttr n : names) {
    int d = findDim(type, n.getValue());
    out.push_back(d < 0 ? 0 : own[d]);
  }
  return out;
}

/// Checks that every name of the result is in some operand.
static LogicalResult verifyResultNames(Operation *op) {
  for (StringAttr n : dimNames(op->getResult(0)))
    if (llvm::none_of(op->getOperands(), [&](Value v) { return findDim(v.getType(), n) >= 0; }))
      return op->emitOpError() << "has dimension '" << n.getValue()
                               << "' in its result but in no operand";
  return verifySizesByName(op);
}

//===----------------------------------------------------------------------===//
// contract
//===----------------------------------------------------------------------===//

LogicalResult ContractOp::verify() {
  for (auto [a, b] : {std::pair(getLhs(), getRhs()), std::pair(getRhs(), getLhs())})
    for (StringAttr n : dimNames(a))
      if (findDim(b.getType(), n) < 0 && findDim(getType(), n) < 0)
        return emitOpError() << "has dimension '" << n.getValue()
                             << "' in one operand only and not in its result";
  return verifyResultNames(*this);
}

ShardingRule ContractOp::getShardingRule() {
  ShardingRule rule = ruleByNames(*this);
  rule.linear = {{0}, {1}};
  return rule;
}

SmallVector<Value> ContractOp::buildGradient(OpBuilder &b, ValueRange gradients,
                                             ArrayRef<bool> wanted) {
  SmallVector<Value> out(2);
  if (wanted[0])
    out[0] = ContractOp::create(b, getLoc(), getLhs().getType(), gradients[0], getRhs());
  if (wanted[1])
    out[1] = ContractOp::create(b, getLoc(), getRhs().getType(), gradients[0], getLhs());
  return out;
}

SmallVector<unsigned> ContractOp::getNarrowOperands() { return {0, 1}; }

LogicalResult ContractOp::interpret(ArrayRef<const HostTensor *> in,
                                    MutableArrayRef<HostTensor> out) {
  SmallVector<StringAttr> summed;
  SmallVector<int64_t> sizes;
  for (auto [n, size] : llvm::zip(dimNames(getLhs()), in[0]->shape))
    if (findDim(getType(), n) < 0) {
      summed.push_back(n);
      sizes.push_back(size);
    }
  auto kept = dimNames(getType());
  auto l = stridesByName(getLhs().getType(), *in[0], kept);
  auto r = stridesByName(getRhs().getType(), *in[1], kept);
  auto ls = stridesByName(getLhs().getType(), *in[0], summed);
  auto rs = stridesByName(getRhs().getType(), *in[1], summed);
  // The offsets of the summed elements are the same for every result element.
  SmallVector<std::pair<int64_t, int64_t>> steps;
  forEachIndex(sizes, [&](ArrayRef<int64_t> i) {
    steps.push_back({linearIndex(i, ls), linearIndex(i, rs)});
  });
  size_t position = 0;
  forEachIndex(out[0].shape, [&](ArrayRef<int64_t> i) {
    const double *a = in[0]->data.data() + linearIndex(i, l);
    const double *c = in[1]->data.data() + linearIndex(i, r);
    double sum = 0;
    for (auto [x, y] : steps)
      sum += a[x] * c[y];
    out[0].data[position++] = sum;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// sum
//===----------------------------------------------------------------------===//

LogicalResult SumOp::verify() { return verifyResultNames(*this); }

ShardingRule SumOp::getShardingRule() {
  ShardingRule rule = ruleByNames(*this);
  rule.linear = {{0}};
  return rule;
}

SmallVector<Value> SumOp::buildGradient(OpBuilder &b, ValueRange gradients, ArrayRef<bool>) {
  Value zero = FillOp::create(b, getLoc(), getInput().getType(), b.getF64FloatAttr(0.0));
  return {AddOp::create(b, getLoc(), getInput().getType(), zero, gradients[0])};
}

LogicalResult SumOp::interpret(ArrayRef<const HostTensor *> in, MutableArrayRef<HostTensor> out) {
  std::fill(out[0].data.begin(), out[0].data.end(), 0.0);
  SmallVector<int64_t> strides(in[0]->shape.size(), 0), own = out[0].strides();
  for (auto [d, n] : llvm::enumerate(dimNames(getInput())))
    if (int r = findDim(getType(), n); r >= 0)
      strides[d] = own[r];
  size_t position = 0;
  forEachIndex(in[0]->shape, [&](ArrayRef<int64_t> i) {
    out[0].data[linearIndex(i, strides)] += in[0]->data[position++];
  });
  return success();
}

//===----------------------------------------------------------------------===//
// unstack, stack, fill
//===----------------------------------------------------------------------===//

/// `outer` · `count` · `inner`: how a dimension at `axis` lies in memory.
static std::pair<int64_t, int64_t> outerInner(ArrayRef<int64_t> shape, int axis) {
  return {HostTensor::count(shape.take_front(axis)), HostTensor::count(shape.drop_front(axis + 1))};
}

static LogicalResult verifyStack(Operation *op, RankedTensorType whole, TypeRange parts,
                                 StringRef dim) {
  int axis = findDim(whole, dim);
  if (axis < 0)
    return op->emitOpError() << "names the dimension '" << dim << "', which the whole tensor lacks";
  if (whole.getDimSize(axis) != static_cast<int64_t>(parts.size()))
    return op->emitOpError() << "has " << parts.size() << " parts along '" << dim << "' of size "
                             << whole.getDimSize(axis);
  SmallVector<int64_t> shape(whole.getShape());
  SmallVector<StringAttr> names(dimNames(whole));
  shape.erase(shape.begin() + axis);
  names.erase(names.begin() + axis);
  for (Type t : parts)
    if (t != namedTensor(whole.getElementType(), shape, names))
      return op->emitOpError() << "has a part of type " << t << " where "
                               << namedTensor(whole.getElementType(), shape, names) << " belongs";
  return success();
}

LogicalResult UnstackOp::verify() {
  return verifyStack(*this, getInput().getType(), getResultTypes(), getDim());
}

ShardingRule UnstackOp::getShardingRule() {
  ShardingRule rule = ruleByNames(*this);
  Factor &stacked = rule.factors[rule.find(getDim())];
  stacked = {stacked.name, stacked.size, false, std::nullopt, std::nullopt};
  rule.linear = rule.zeros = {{0}};
  return rule;
}

SmallVector<Value> UnstackOp::buildGradient(OpBuilder &b, ValueRange gradients, ArrayRef<bool>) {
  SmallVector<Value> parts;
  for (auto [g, type] : llvm::zip(gradients, getResultTypes()))
    parts.push_back(g ? g : FillOp::create(b, getLoc(), type, b.getF64FloatAttr(0.0)));
  return {StackOp::create(b, getLoc(), getInput().getType(), parts, getDim())};
}

LogicalResult UnstackOp::interpret(ArrayRef<const HostTensor *> in,
                                   MutableArrayRef<HostTensor> out) {
  auto [outer, inner] = outerInner(in[0]->shape, findDim(getInput().getType(), getDim()));
  int64_t n = out.size();
  for (int64_t part = 0; part < n; ++part)
    for (int64_t o = 0; o < outer; ++o)
      std::copy_n(in[0]->data.begin() + (o * n + part) * inner, inner,
                  out[part].data.begin() + o * inner);
  return success();
}

LogicalResult StackOp::verify() {
  return verifyStack(*this, getType(), getOperandTypes(), getDim());
}

ShardingRule StackOp::getShardingRule() {
  ShardingRule rule = ruleByNames(*this);
  rule.factors[rule.find(getDim())].shardable = false;
  SmallVector<int> all;
  for (size_t i = 0; i < getParts().size(); ++i)
    all.push_back(static_cast<int>(i));
  rule.linear = rule.zeros = {all};
  return rule;
}

SmallVector<Value> StackOp::buildGradient(OpBuilder &b, ValueRange gradients, ArrayRef<bool>) {
  auto unstack =
      UnstackOp::create(b, getLoc(), TypeRange(getOperandTypes()), gradients[0], getDim());
  return SmallVector<Value>(unstack.getResults());
}

LogicalResult StackOp::interpret(ArrayRef<const HostTensor *> in, MutableArrayRef<HostTensor> out) {
  auto [outer, inner] = outerInner(out[0].shape, findDim(getType(), getDim()));
  int64_t n = in.size();
  for (int64_t part = 0; part < n; ++part)
    for (int64_t o = 0; o < outer; ++o)
      std::copy_n(in[part]->data.begin() + o * inner, inner,
                  out[0].data.begin() + (o * n + part) * inner);
  return success();
}

//===----------------------------------------------------------------------===//
// constant
//===----------------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

ShardingRule ConstantOp::getShardingRule() {
  ShardingRule rule = ruleByNames(*this);
  keepWhole(rule, getType()); // a rank would need elements of its own
  return rule;
}

LogicalResult ConstantOp::interpret(ArrayRef<const HostTensor *>, MutableArrayRef<HostTensor> out) {
  auto elements = dyn_cast<DenseElementsAttr>(getValueAttr());
  if (!elements)
    return emitOpError("has elements that are not written down one by one");
  bool isFloat = isa<FloatType>(elements.getElementType());
  for (auto [i, to] : llvm::enumerate(out[0].data))
    to = isFloat ? elements.getValues<APFloat>()[i].convertToDouble()
                 : static_cast<double>(elements.getValues<APInt>()[i].getSExtValue());
  return success();
}

ShardingRule FillOp::getShardingRule() { return ruleByNames(*this); }

LogicalResult FillOp::interpret(ArrayRef<const HostTensor *>, MutableArrayRef<HostTensor> out) {
  std::fill(out[0].data.begin(), out[0].data.end(), getValue().convertToDouble());
  return success();
}

//===- Experts.cpp - Products with the matrix that an index picks ----------===//

#include "dialects/NN/NN.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

//===----------------------------------------------------------------------===//
// What both have in common
//===----------------------------------------------------------------------===//

/// How many dimensions of `value` are those of the indices: all of them, or all but
/// the last. Nothing where neither comes first in `value`.
static std::optional<size_t> sharedDims(Value value, Value indices) {
  auto own = dimNames(value), index = dimNames(indices);
  if (own.take_front(index.size()) == index)
    return index.size();
  index = index.drop_back();
  if (own.take_front(index.size()) == index &&
      findDim(value.getType(), dimNames(indices).back()) < 0)
    return index.size();
  return std::nullopt;
}

static LogicalResult verifyIndices(Operation *op, Value indices, Value offset) {
  if (dimNames(indices).empty() || !getElementTypeOrSelf(indices).isInteger(32))
    return op->emitOpError("needs indices of i32, of at least one dimension");
  if (offset && (!dimNames(offset).empty() || !getElementTypeOrSelf(offset).isInteger(32)))
    return op->emitOpError("needs an offset that is one i32");
  return verifySizesByName(op);
}

/// Operands with this rank's offset along the first dimension of `table` behind them.
static SmallVector<Value> withOffset(const ShardingRule &rule, Type table, ValueRange operands,
                                     LocalContext &context) {
  SmallVector<Value> out(operands);
  int f = rule.find(dimNames(table)[0].getValue());
  if (context.isSharded(f))
    out.push_back(context.offset(f));
  return out;
}

static int64_t offsetOf(ArrayRef<const HostTensor *> offset) {
  return offset.empty() ? 0 : static_cast<int64_t>(offset[0]->data[0]);
}

//===----------------------------------------------------------------------===//
// expert_contract
//===----------------------------------------------------------------------===//

Value ExpertContractOp::getPickingIndex() { return getIndices(); }
Value ExpertContractOp::getPickingOffset() { return getOffset(); }
SmallVector<unsigned> ExpertContractOp::getNarrowOperands() { return {0, 1}; }
bool ExpertContractOp::canRound(unsigned) { return false; }

LogicalResult ExpertContractOp::verify() {
  auto index = dimNames(getIndices()), table = dimNames(getTable());
  auto shared = sharedDims(getInput(), getIndices());
  if (!shared || dimNames(getType()).take_front(index.size()) != index)
    return emitOpError("needs an input that starts with the dimensions of the indices (the last "
                       "may be missing), and a result that starts with all of them");
  SmallVector<StringAttr> want;
  for (StringAttr name : dimNames(getType()).drop_front(index.size()))
    want.push_back(name);
  for (StringAttr name : dimNames(getInput()).drop_front(*shared))
    want.push_back(name);
  auto own = table.drop_front(table.empty() ? 0 : 1);
  if (table.empty() || want.size() != own.size() ||
      llvm::any_of(want, [&](StringAttr n) { return !llvm::is_contained(own, n); }) ||
      llvm::is_contained(want, table[0]))
    return emitOpError("needs a table of the dimension that is picked from, then those of the "
                       "input and of the result behind the indices");
  return verifyIndices(*this, getIndices(), getOffset());
}

ShardingRule ExpertContractOp::getShardingRule() {
  ShardingRule rule = ruleByNames(*this);
  Factor &picked = rule.factors[rule.operands[1][0]];
  picked.neutral.reset(); // indices never point at padding
  picked.shardable = !getOffset();
  picked.pickedBy = 2;
  if (*sharedDims(getInput(), getIndices()) == dimNames(getIndices()).size())
    picked.pickedOperands = {0};
  rule.linear = {{0}, {1}};
  return rule;
}

SmallVector<Value> ExpertContractOp::buildLocal(OpBuilder &b, ValueRange operands, TypeRange types,
                                                LocalContext &context) {
  auto local = withOffset(getShardingRule(), getTable().getType(), operands, context);
  return {ExpertContractOp::create(b, getLoc(), types, local, (*this)->getAttrs())};
}

SmallVector<Value> ExpertContractOp::buildGradient(OpBuilder &b, ValueRange g,
                                                   ArrayRef<bool> wanted) {
  SmallVector<Value> out(getNumOperands());
  RankedTensorType input = getInput().getType(), index = getIndices().getType();
  if (wanted[0]) {
    // One for each index, summed where the input is the same for several.
    size_t shared = *sharedDims(getInput(), getIndices());
    SmallVector<int64_t> shape(index.getShape());
    SmallVector<StringAttr> names(dimNames(index));
    llvm::append_range(shape, input.getShape().drop_front(shared));
    llvm::append_range(names, dimNames(input).drop_front(shared));
    RankedTensorType each = namedTensor(input.getElementType(), shape, names);
    out[0] =
        ExpertContractOp::create(b, getLoc(), each, g[0], getTable(), getIndices(), getOffset());
    if (each != input)
      out[0] = SumOp::create(b, getLoc(), input, out[0]);
  }
  if (wanted[1]) {
    // The dimensions of the table in the order that its gradient comes in.
    Value lhs = g[0], rhs = getInput();
    if (findDim(rhs.getType(), dimNames(getTable())[1]) >= 0)
      std::swap(lhs, rhs);
    out[1] = ExpertOuterOp::create(b, getLoc(), getTable().getType(), lhs, rhs, getIndices(),
                                   getOffset());
  }
  return out;
}

/// Positions in a slice of `table` of all elements along the dimensions that `value`
/// has behind the first `shared`, in their order.
static SmallVector<int64_t> positionsIn(Type table, const HostTensor &of, Value value,
                                        size_t shared) {
  SmallVector<int64_t> sizes, strides, own = of.strides(), positions;
  for (StringAttr name : dimNames(value).drop_front(shared)) {
    int d = findDim(table, name);
    sizes.push_back(of.shape[d]);
    strides.push_back(own[d]);
  }
  forEachIndex(sizes, [&](ArrayRef<int64_t> i) { positions.push_back(linearIndex(i, strides)); });
  return positions;
}

LogicalResult ExpertContractOp::interpret(ArrayRef<const HostTensor *> in,
                                          MutableArrayRef<HostTensor> out) {
  const HostTensor &x = *in[0], &table = *in[1], &index = *in[2];
  int64_t count = table.shape[0], slice = count ? table.size() / count : 0;
  int64_t offset = offsetOf(in.drop_front(3));
  size_t shared = *sharedDims(getInput(), getIndices());
  auto k = positionsIn(getTable().getType(), table, getInput(), shared);
  auto n = positionsIn(getTable().getType(), table, getResult(), dimNames(getIndices()).size());
  int64_t share = shared == index.shape.size() ? 1 : index.shape.back();
  for (int64_t row = 0; row < index.size(); ++row) {
    int64_t e = static_cast<int64_t>(index.data[row]) - offset;
    for (size_t j = 0; j < n.size(); ++j) {
      double sum = 0;
      for (size_t i = 0; i < k.size() && e >= 0 && e < count; ++i)
        sum += x.data[row / share * k.size() + i] * table.data[e * slice + k[i] + n[j]];
      out[0].data[row * n.size() + j] = sum;
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// expert_outer
//===----------------------------------------------------------------------===//

Value ExpertOuterOp::getPickingIndex() { return getIndices(); }
Value ExpertOuterOp::getPickingOffset() { return getOffset(); }
SmallVector<unsigned> ExpertOuterOp::getNarrowOperands() { return {0, 1}; }
bool ExpertOuterOp::canRound(unsigned) { return false; }

LogicalResult ExpertOuterOp::verify() {
  SmallVector<StringAttr> want;
  for (Value v : {getLhs(), getRhs()}) {
    auto shared = sharedDims(v, getIndices());
    if (!shared)
      return emitOpError("needs operands that start with the dimensions of the indices (the last "
                         "may be missing)");
    llvm::append_range(want, dimNames(v).drop_front(*shared));
  }
  auto own = dimNames(getType());
  if (own.empty() || own.drop_front() != ArrayRef(want) || llvm::is_contained(want, own[0]))
    return emitOpError("needs a result of the dimension that is picked from, then those of the "
                       "operands behind the indices");
  return verifyIndices(*this, getIndices(), getOffset());
}

ShardingRule ExpertOuterOp::getShardingRule() {
  ShardingRule rule = ruleByNames(*this);
  Factor &picked = rule.factors[rule.results[0][0]];
  picked.shardable = !getOffset();
  picked.pickedBy = 2;
  for (int i : {0, 1})
    if (*sharedDims(getOperand(i), getIndices()) == dimNames(getIndices()).size())
      picked.pickedOperands.push_back(i);
  // Padded indices pick something: what they would add is made zero.
  if (!picked.pickedOperands.empty())
    setNeutralOperand(rule, picked.pickedOperands[0]);
  else
    rule.factors[rule.operands[2].back()].shardable = false; // no operand has it
  rule.linear = {{0}, {1}};
  return rule;
}

SmallVector<Value> ExpertOuterOp::buildLocal(OpBuilder &b, ValueRange operands, TypeRange types,
                                             LocalContext &context) {
  auto local = withOffset(getShardingRule(), getType(), operands, context);
  return {ExpertOuterOp::create(b, getLoc(), types, local, (*this)->getAttrs())};
}

LogicalResult ExpertOuterOp::interpret(ArrayRef<const HostTensor *> in,
                                       MutableArrayRef<HostTensor> out) {
  const HostTensor &x = *in[0], &y = *in[1], &index = *in[2];
  int64_t count = out[0].shape[0], offset = offsetOf(in.drop_front(3));
  auto width = [&](unsigned operand) {
    size_t shared = *sharedDims(getOperand(operand), getIndices());
    int64_t share = shared == index.shape.size() ? 1 : index.shape.back();
    return std::pair(HostTensor::count(ArrayRef(in[operand]->shape).drop_front(shared)), share);
  };
  auto [m, shareX] = width(0);
  auto [n, shareY] = width(1);
  std::fill(out[0].data.begin(), out[0].data.end(), 0.0);
  for (int64_t row = 0; row < index.size(); ++row) {
    int64_t e = static_cast<int64_t>(index.data[row]) - offset;
    if (e < 0 || e >= count)
      continue;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        out[0].data[(e * m + i) * n + j] +=
            x.data[row / shareX * m + i] * y.data[row / shareY * n + j];
  }
  return success();
}

//===- Attention.cpp - Rotary embedding and attention ----------------------===//

#include "dialects/NN/Body.h"
#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

//===----------------------------------------------------------------------===//
// rope
//===----------------------------------------------------------------------===//

LogicalResult RopeOp::verify() {
  if (getType() != getInput().getType())
    return emitOpError("needs a result of its input's type");
  int64_t width = getType().getShape().back(), pairs = getFrequencies().size();
  if (pairs == 0 || width % (2 * pairs))
    return emitOpError() << "has " << pairs << " frequencies for a width of " << width
                         << "; twice as many divide the width";
  for (StringAttr n : dimNames(getPositions()))
    if (findDim(getType(), n) < 0)
      return emitOpError() << "has positions along '" << n.getValue() << "', which its input lacks";
  return verifySizesByName(*this);
}

ShardingRule RopeOp::getShardingRule() {
  ShardingRule rule = ruleByNames(*this);
  rule.factors[rule.results[0].back()].shardable = false;
  rule.linear = {{0}};
  return rule;
}

SmallVector<Value> RopeOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool> wanted) {
  auto flipped = getInverse() ? UnitAttr() : b.getUnitAttr();
  Value grad = wanted[0] ? RopeOp::create(b, getLoc(), getType(), g[0], getPositions(),
                                          getFrequenciesAttr(), flipped, getInterleavedAttr())
                               .getResult()
                         : Value();
  return {grad, Value()};
}

LogicalResult RopeOp::interpret(ArrayRef<const HostTensor *> in, MutableArrayRef<HostTensor> out) {
  auto names = dimNames(getType());
  SmallVector<int64_t> own = in[1]->strides(), strides;
  for (StringAttr n : names.drop_back()) {
    int d = findDim(getPositions().getType(), n);
    strides.push_back(d < 0 ? 0 : own[d]);
  }
  int64_t width = out[0].shape.back(), half = getFrequencies().size();
  int64_t row = 0;
  out[0].data = in[0]->data;
  forEachIndex(ArrayRef<int64_t>(out[0].shape).drop_back(), [&](ArrayRef<int64_t> i) {
    double position = in[1]->data[linearIndex(i, strides)];
    const double *x = in[0]->data.data() + row * width;
    double *y = out[0].data.data() + row * width;
    for (int64_t k = 0; k < half; ++k) {
      double angle = position * getFrequencies()[k];
      double c = std::cos(angle), s = getInverse() ? -std::sin(angle) : std::sin(angle);
      int64_t one = getInterleaved() ? 2 * k : k, other = getInterleaved() ? one + 1 : k + half;
      y[one] = x[one] * c - x[other] * s;
      y[other] = x[other] * c + x[one] * s;
    }
    ++row;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// attention
//===----------------------------------------------------------------------===//

/// The names of an attention's dimensions, as attributes.
static SmallVector<StringAttr> namesOf(Operation *op, std::initializer_list<StringRef> list) {
  SmallVector<StringAttr> out;
  for (StringRef n : list)
    out.push_back(StringAttr::get(op->getContext(), n));
  return out;
}

OperandRange AttentionOp::getPositions() {
  return getExtra().take_front(getExtra().size() >= 2 ? 2 : 0);
}

Value AttentionOp::getSinks() { return getExtra().size() % 2 ? getExtra().back() : Value(); }

/// None, or those of the queries and those of the keys.
static LogicalResult verifyPositions(Operation *op, OperandRange positions, bool ordered) {
  if (positions.empty() && !ordered)
    return success();
  if (positions.size() != 2)
    return op->emitOpError() << "needs positions of queries and of keys, or none (which needs no "
                                "'ordered'), not "
                             << positions.size();
  for (Value v : positions)
    if (!getElementTypeOrSelf(v).isInteger(32))
      return op->emitOpError() << "needs positions of type i32, not " << v.getType();
  return verifyDims(op, positions, namesOf(op, {"batch", "sequence"}), "positions");
}

/// `names`, whose last one is a key's width, with the width of `value` in its place.
static SmallVector<StringAttr> withValueWidth(ArrayRef<StringAttr> names, Value value) {
  SmallVector<StringAttr> out(names);
  auto own = dimNames(value);
  if (!own.empty() && own.back() == "value_dim")
    out.back() = own.back();
  return out;
}

/// Dimensions with one name have one size; with positions, keys may be of another
/// number than queries.
static LogicalResult verifyAttentionSizes(Operation *op, ArrayRef<Type> queries,
                                          ArrayRef<Type> keys, OperandRange positions) {
  if (positions.empty())
    return verifySizesByName(op);
  SmallVector<Type> first(queries), second(keys), both(queries);
  first.push_back(positions[0].getType());
  second.push_back(positions[1].getType());
  for (Type key : keys) {
    // The sequence has the size of the queries here.
    auto type = cast<RankedTensorType>(key);
    SmallVector<int64_t> shape(type.getShape());
    shape[1] = cast<RankedTensorType>(queries[0]).getDimSize(1);
    both.push_back(RankedTensorType::get(shape, type.getElementType(), type.getEncoding()));
  }
  return success(succeeded(verifySizesByName(op, first)) &&
                 succeeded(verifySizesByName(op, second)) &&
                 succeeded(verifySizesByName(op, both)));
}

/// An attention or its gradient: `rows` go with the query, `keys` are like the key, `values`
/// like the value.
template <typename Op>
static LogicalResult verifyAttention(Op op, ArrayRef<Value> rows, ArrayRef<Value> keys,
                                     ArrayRef<Value> values) {
  if (op.getWindow() && static_cast<int64_t>(*op.getWindow()) < 1)
    return op.emitOpError("has a window in which a position does not see itself");
  if (op.getCap() && !(op.getCap()->isFinite() && op.getCap()->convertToDouble() > 0))
    return op.emitOpError("needs a cap above 0");
  Type element = getElementTypeOrSelf(op.getQuery());
  if (element != getElementTypeOrSelf(op.getKey()) ||
      element != getElementTypeOrSelf(op.getValue()))
    return op.emitOpError("needs query, key and value of one element type");
  if (!getElementTypeOrSelf(op.getLse()).isF32())
    return op.emitOpError("needs a log-sum-exp of f32");
  auto grouped = namesOf(op, {"batch", "sequence", "kv_head", "group", "head_dim"});
  auto single = namesOf(op, {"batch", "sequence", "kv_head", "head_dim"});
  auto names = dimNames(op.getQuery());
  if (names != ArrayRef(grouped) && names != ArrayRef(single))
    return op.emitOpError(
        "needs a query of dimensions batch, sequence, kv_head, [group,] head_dim, in this order");
  if (failed(verifyDims(op, keys, single, "keys and values")) ||
      failed(verifyDims(op, values, withValueWidth(single, op.getValue()), "keys and values")) ||
      failed(verifyDims(op, op.getLse(), names.drop_back(), "a log-sum-exp")) ||
      failed(verifyPositions(op, op.getPositions(), op.getOrdered())))
    return failure();
  SmallVector<Value> all(keys);
  llvm::append_range(all, values);
  SmallVector<Type> like = llvm::map_to_vector(rows, [](Value v) { return v.getType(); });
  like.push_back(op.getLse().getType());
  return verifyAttentionSizes(
      op, like, llvm::map_to_vector(all, [](Value v) { return v.getType(); }), op.getPositions());
}

LogicalResult AttentionOp::verify() {
  RankedTensorType query = getQuery().getType(), value = getValue().getType();
  SmallVector<int64_t> shape(query.getShape());
  if (!shape.empty() && value.getRank() > 0)
    shape.back() = value.getShape().back();
  // Sums are f32, whatever they are of.
  Type element = getElementTypeOrSelf(getResult());
  if ((element != query.getElementType() && !element.isF32()) ||
      getType(0) != namedTensor(element, shape, withValueWidth(dimNames(query), getValue())))
    return emitOpError("needs a result of its query's type, as wide as a value");
  if (getExtra().size() == 1 && getElementTypeOrSelf(getExtra()[0]).isInteger(32))
    return verifyPositions(*this, getExtra(), getOrdered());
  if (getExtra().size() > 3)
    return emitOpError("has more than positions of queries, positions of keys and sinks");
  SmallVector<Value> rows = {getQuery(), getResult()};
  if (Value sinks = getSinks()) {
    if (failed(verifyDims(*this, sinks, dimNames(getLse()).drop_front(2), "sinks")))
      return failure();
    rows.push_back(sinks);
  }
  return verifyAttention(*this, rows, {getKey()}, {getValue()});
}

LogicalResult AttentionGradOp::verify() {
  if (failed(
          verifyDims(*this, getQueryGradient(), dimNames(getQuery()), "a result and gradients")) ||
      failed(verifyDims(*this, {getResult(), getGradient()},
                        withValueWidth(dimNames(getQuery()), getValue()),
                        "a result and gradients")))
    return failure();
  return verifyAttention(*this, {getQuery(), getResult(), getGradient(), getQueryGradient()},
                         {getKey(), getKeyGradient()}, {getValue(), getValueGradient()});
}

LogicalResult AttentionSinkGradOp::verify() {
  auto rows = dimNames(getLse());
  if (rows.size() <= dimNames(getSinks()).size() ||
      rows.take_back(dimNames(getSinks()).size()) != dimNames(getSinks()))
    return emitOpError("needs sinks whose dimensions are the last ones of the log-sum-exp");
  if (getType() != getSinks().getType())
    return emitOpError("needs a result of its sinks' type");
  return success(succeeded(verifyDims(*this, getShare(), rows, "a share of each row")) &&
                 succeeded(verifySizesByName(*this)));
}

/// Batch and heads can be cut, and the sequence of the queries if rows need not be
/// positions; every query sees the keys' sequence whole. `keyResults` are like the key.
template <typename Op>
static ShardingRule attentionRule(Op op, ArrayRef<unsigned> keyResults, int linear) {
  ShardingRule rule = ruleByNames(op);
  keepWhole(rule, namedTensor(op.getLse().getType().getElementType(), {1, 1},
                              namesOf(op, {"head_dim", "value_dim"})));
  int sequence = rule.find("sequence");
  if (op.getPositions().empty()) {
    rule.factors[sequence].shardable = false;
  } else {
    auto whole = static_cast<int>(rule.factors.size());
    int64_t size = cast<RankedTensorType>(op.getKey().getType()).getDimSize(1);
    rule.factors.push_back({"key_sequence", size, false, std::nullopt, std::nullopt});
    for (unsigned i : {1u, 2u, op.getPositions().getBeginOperandIndex() + 1})
      rule.operands[i][1] = whole;
    for (unsigned i : keyResults) {
      rule.results[i][1] = whole;
      rule.factors[sequence].reduction = ReductionKind::Sum;
      rule.factors[sequence].neutral = 0.0;
    }
  }
  if (linear >= 0) {
    rule.linear = {{linear}};
    setNeutralOperand(rule, linear);
  }
  return rule;
}

ShardingRule AttentionOp::getShardingRule() { return attentionRule(*this, {}, -1); }
ShardingRule AttentionGradOp::getShardingRule() { return attentionRule(*this, {1, 2}, 5); }

/// Whole sequences in order need no positions; a part of them does.
template <typename Op>
static SmallVector<Value> buildLocalAttention(Op op, OpBuilder &b, ValueRange operands,
                                              TypeRange types, LocalContext &context) {
  ShardingRule rule = op.getShardingRule();
  bool needed = !op.getOrdered() || context.isSharded(rule.find("sequence"));
  OperandRange positions = op.getPositions();
  SmallVector<Value> kept(operands);
  if (!needed)
    kept.erase(kept.begin() + positions.getBeginOperandIndex(),
               kept.begin() + positions.getBeginOperandIndex() + positions.size());
  auto local = Op::create(b, op.getLoc(), types, kept, op->getAttrs());
  local.setOrdered(false);
  return SmallVector<Value>(local->getResults());
}

SmallVector<Value> AttentionOp::buildLocal(OpBuilder &b, ValueRange operands, TypeRange types,
                                           LocalContext &context) {
  return buildLocalAttention(*this, b, operands, types, context);
}
SmallVector<Value> AttentionGradOp::buildLocal(OpBuilder &b, ValueRange operands, TypeRange types,
                                               LocalContext &context) {
  return buildLocalAttention(*this, b, operands, types, context);
}

OperandRange AttentionOp::getTokenPositions() { return getPositions(); }
OperandRange AttentionGradOp::getTokenPositions() { return getPositions(); }
void AttentionOp::setTokensOrdered() { setOrdered(true); }
void AttentionGradOp::setTokensOrdered() { setOrdered(true); }

ShardingRule AttentionSinkGradOp::getShardingRule() {
  ShardingRule rule = ruleByNames(*this);
  rule.linear = {{2}};
  setNeutralOperand(rule, 2);
  return rule;
}

SmallVector<Value> AttentionOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool> wanted) {
  auto grad = AttentionGradOp::create(b, getLoc(), getQuery().getType(), getKey().getType(),
                                      getValue().getType(), getQuery(), getKey(), getValue(),
                                      getResult(), getLse(), g[0], getPositions(), getScaleAttr(),
                                      getWindowAttr(), getCapAttr(), getOrderedAttr());
  SmallVector<Value> out(grad.getResults());
  out.resize(getNumOperands());
  if (Value sinks = getSinks(); sinks && wanted.back()) {
    Value products = MulOp::create(b, getLoc(), getResult().getType(), getResult(), g[0]);
    Value share = SumOp::create(b, getLoc(), getLse().getType(), products);
    out.back() = AttentionSinkGradOp::create(b, getLoc(), sinks.getType(), sinks, getLse(), share);
  }
  return out;
}

//===----------------------------------------------------------------------===//
// Generated kernels
//===----------------------------------------------------------------------===//

/// A generator's name with the sizes that the types give, of all operands in their order.
/// `tensors` are those before positions and sinks.
template <typename Op>
static LibraryKernel attentionKernel(Op op, StringRef generator, unsigned tensors,
                                     SmallVector<unsigned> results) {
  RankedTensorType query = op.getQuery().getType(), value = op.getValue().getType();
  LibraryKernel kernel{generator, {}, std::move(results), {}};
  // Bit i: tensor i of the kernel, operands first, is of bf16.
  SmallVector<Value> all(op->getOperands().take_front(tensors));
  for (unsigned i : kernel.results)
    all.push_back(op->getResult(i));
  int64_t narrow = 0;
  for (auto [i, v] : llvm::enumerate(all))
    narrow |= int64_t(getElementTypeOrSelf(v).isBF16()) << i;
  if (narrow != 0)
    kernel.sizes.push_back({"narrow", static_cast<double>(narrow)});
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    kernel.operands.push_back(i);
  for (auto [name, size] : llvm::zip(dimNames(query), query.getShape()))
    kernel.sizes.push_back({name.getValue(), static_cast<double>(size)});
  if (dimNames(value).back() == "value_dim")
    kernel.sizes.push_back({"value_dim", static_cast<double>(value.getShape().back())});
  kernel.sizes.push_back({"scale", op.getScale().convertToDouble()});
  if (op.getWindow())
    kernel.sizes.push_back({"window", static_cast<double>(*op.getWindow())});
  if (op.getCap())
    kernel.sizes.push_back({"cap", op.getCap()->convertToDouble()});
  if (!op.getPositions().empty())
    kernel.sizes.push_back(
        {"key_sequence",
         static_cast<double>(cast<RankedTensorType>(op.getKey().getType()).getDimSize(1))});
  return kernel;
}

SmallVector<LibraryKernel> AttentionOp::getLibraryKernels() {
  LibraryKernel kernel = attentionKernel(*this, "attention.forward", 3, {0, 1});
  if (getSinks())
    kernel.sizes.push_back({"sinks", 1});
  return {kernel};
}

SmallVector<LibraryKernel> AttentionGradOp::getLibraryKernels() {
  return {attentionKernel(*this, "attention.backward_query", 6, {0}),
          attentionKernel(*this, "attention.backward_key_value", 6, {1, 2})};
}

SmallVector<unsigned> AttentionOp::getNarrowOperands() { return {0, 1, 2}; }
bool AttentionOp::canRound(unsigned result) { return result == 0; }

/// All but the log-sum-exp and positions.
SmallVector<unsigned> AttentionGradOp::getNarrowOperands() { return {0, 1, 2, 3, 5}; }

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

SmallVector<Value> AttentionSinkGradOp::buildBody(OpBuilder &b, ValueRange operands,
                                                  ArrayRef<RankedTensorType> types) {
  return {Body(b, getLoc()).sum(types[0], operands, [](const BodyPoint &p) {
    return -((p[0] - p[1]).exp() * p[2]);
  })};
}

//===- Attention.cpp - Rotary embedding and attention ----------------------===//

#include "dialects/NN/NN.h"
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

/// An attention or its gradient: `rows` are like the query, `keys` like the key.
template <typename Op>
static LogicalResult verifyAttention(Op op, ArrayRef<Value> rows, ArrayRef<Value> keys) {
  if (op.getWindow() && static_cast<int64_t>(*op.getWindow()) < 1)
    return op.emitOpError("has a window in which a position does not see itself");
  if (op.getCap() && !(op.getCap()->isFinite() && op.getCap()->convertToDouble() > 0))
    return op.emitOpError("needs a cap above 0");
  auto grouped = namesOf(op, {"batch", "sequence", "kv_head", "group", "head_dim"});
  auto single = namesOf(op, {"batch", "sequence", "kv_head", "head_dim"});
  auto names = dimNames(op.getQuery());
  if (names != ArrayRef(grouped) && names != ArrayRef(single))
    return op.emitOpError(
        "needs a query of dimensions batch, sequence, kv_head, [group,] head_dim, in this order");
  if (failed(verifyDims(op, keys, single, "keys and values")) ||
      failed(verifyDims(op, op.getLse(), names.drop_back(), "a log-sum-exp")) ||
      failed(verifyPositions(op, op.getPositions(), op.getOrdered())))
    return failure();
  SmallVector<Type> like = llvm::map_to_vector(rows, [](Value v) { return v.getType(); });
  like.push_back(op.getLse().getType());
  return verifyAttentionSizes(
      op, like, llvm::map_to_vector(keys, [](Value v) { return v.getType(); }), op.getPositions());
}

LogicalResult AttentionOp::verify() {
  if (getType(0) != getQuery().getType())
    return emitOpError("needs a result of its query's type");
  return verifyAttention(*this, {getQuery()}, {getKey(), getValue()});
}

LogicalResult AttentionGradOp::verify() {
  if (failed(verifyDims(*this, {getResult(), getGradient(), getQueryGradient()},
                        dimNames(getQuery()), "a result and gradients")))
    return failure();
  return verifyAttention(*this, {getQuery(), getResult(), getGradient(), getQueryGradient()},
                         {getKey(), getValue(), getKeyGradient(), getValueGradient()});
}

/// Batch and heads can be cut, and the sequence of the queries if rows need not be
/// positions; every query sees the keys' sequence whole. `keyResults` are like the key.
template <typename Op>
static ShardingRule attentionRule(Op op, ArrayRef<unsigned> keyResults, int linear) {
  ShardingRule rule = ruleByNames(op);
  rule.factors[rule.find("head_dim")].shardable = false;
  int sequence = rule.find("sequence");
  if (op.getPositions().empty()) {
    rule.factors[sequence].shardable = false;
  } else {
    auto whole = static_cast<int>(rule.factors.size());
    int64_t size = cast<RankedTensorType>(op.getKey().getType()).getDimSize(1);
    rule.factors.push_back({"key_sequence", size, false, std::nullopt, std::nullopt});
    for (unsigned i : {1u, 2u, op->getNumOperands() - 1})
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
  auto local =
      Op::create(b, op.getLoc(), types,
                 needed ? operands : operands.drop_back(op.getPositions().size()), op->getAttrs());
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

SmallVector<Value> AttentionOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool>) {
  auto grad = AttentionGradOp::create(b, getLoc(), getQuery().getType(), getKey().getType(),
                                      getValue().getType(), getQuery(), getKey(), getValue(),
                                      getResult(), getLse(), g[0], getPositions(), getScaleAttr(),
                                      getWindowAttr(), getCapAttr(), getOrderedAttr());
  SmallVector<Value> out(grad.getResults());
  out.resize(getNumOperands());
  return out;
}

namespace {
/// The sizes of an attention, where its rows lie, row-major, and what sees what.
struct AttentionShape {
  int64_t batch, queries, keys, heads, group, width;
  std::optional<uint64_t> window;
  const HostTensor *queryPositions = nullptr, *keyPositions = nullptr;

  /// `positions`: none, or two.
  AttentionShape(const HostTensor &query, const HostTensor &key,
                 ArrayRef<const HostTensor *> positions, std::optional<uint64_t> window)
      : batch(key.shape[0]), queries(query.shape[1]), keys(key.shape[1]), heads(key.shape[2]),
        group(query.rank() == 5 ? query.shape[3] : 1), width(key.shape[3]), window(window) {
    if (!positions.empty()) {
      queryPositions = positions[0];
      keyPositions = positions[1];
    }
  }

  int64_t queryRow(int64_t b, int64_t s, int64_t h, int64_t g) const {
    return ((b * queries + s) * heads + h) * group + g;
  }
  int64_t keyRow(int64_t b, int64_t s, int64_t h) const { return (b * keys + s) * heads + h; }

  /// The keys that query `i` sees, in the order of rows.
  std::vector<int64_t> seenBy(int64_t b, int64_t i) const {
    std::vector<int64_t> seen;
    double at = queryPositions ? queryPositions->data[b * queries + i] : double(i);
    for (int64_t j = 0; j < keys; ++j) {
      double other = keyPositions ? keyPositions->data[b * keys + j] : double(j);
      if (other <= at && (!window || other > at - double(*window)))
        seen.push_back(j);
    }
    return seen;
  }

  /// Calls `fn(b, h, g)` for every query head.
  template <typename Fn> void forEachHead(Fn fn) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t g = 0; g < group; ++g)
          fn(b, h, g);
  }
};
} // namespace

static double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

static const double *rowOf(const HostTensor &t, int64_t row, int64_t width) {
  return t.data.data() + row * width;
}
static double *rowOf(HostTensor &t, int64_t row, int64_t width) {
  return t.data.data() + row * width;
}

LogicalResult AttentionOp::interpret(ArrayRef<const HostTensor *> in,
                                     MutableArrayRef<HostTensor> out) {
  AttentionShape shape(*in[0], *in[1], in.drop_front(3), getWindow());
  double scale = getScale().convertToDouble();
  double cap = getCap() ? getCap()->convertToDouble() : 0;
  int64_t w = shape.width;
  shape.forEachHead([&](int64_t b, int64_t h, int64_t g) {
    for (int64_t i = 0; i < shape.queries; ++i) {
      int64_t row = shape.queryRow(b, i, h, g);
      std::vector<int64_t> seen = shape.seenBy(b, i);
      std::vector<double> score;
      double max = -INFINITY, sum = 0;
      for (int64_t j : seen) {
        double s = scale * dot(rowOf(*in[0], row, w), rowOf(*in[1], shape.keyRow(b, j, h), w), w);
        score.push_back(cap > 0 ? cap * std::tanh(s / cap) : s);
        max = std::max(max, score.back());
      }
      for (double s : score)
        sum += std::exp(s - max);
      double lse = seen.empty() ? 0.0 : max + std::log(sum), *y = rowOf(out[0], row, w);
      out[1].data[row] = lse;
      std::fill_n(y, w, 0.0);
      for (auto [j, s] : llvm::zip(seen, score)) {
        const double *v = rowOf(*in[2], shape.keyRow(b, j, h), w);
        for (int64_t k = 0; k < w; ++k)
          y[k] += std::exp(s - lse) * v[k];
      }
    }
  });
  return success();
}

LogicalResult AttentionGradOp::interpret(ArrayRef<const HostTensor *> in,
                                         MutableArrayRef<HostTensor> out) {
  AttentionShape shape(*in[0], *in[1], in.drop_front(6), getWindow());
  double scale = getScale().convertToDouble();
  double cap = getCap() ? getCap()->convertToDouble() : 0;
  int64_t w = shape.width;
  for (HostTensor &t : out)
    std::fill(t.data.begin(), t.data.end(), 0.0);
  shape.forEachHead([&](int64_t b, int64_t h, int64_t g) {
    for (int64_t i = 0; i < shape.queries; ++i) {
      int64_t row = shape.queryRow(b, i, h, g);
      const double *q = rowOf(*in[0], row, w), *dy = rowOf(*in[5], row, w);
      double delta = dot(rowOf(*in[3], row, w), dy, w), *dq = rowOf(out[0], row, w);
      for (int64_t j : shape.seenBy(b, i)) {
        int64_t kv = shape.keyRow(b, j, h);
        const double *k = rowOf(*in[1], kv, w), *v = rowOf(*in[2], kv, w);
        double *dk = rowOf(out[1], kv, w), *dv = rowOf(out[2], kv, w);
        double score = scale * dot(q, k, w), slope = scale;
        if (cap > 0) {
          double t = std::tanh(score / cap);
          score = cap * t;
          slope *= 1 - t * t;
        }
        double p = std::exp(score - in[4]->data[row]);
        double ds = slope * p * (dot(dy, v, w) - delta);
        for (int64_t c = 0; c < w; ++c) {
          dq[c] += ds * k[c];
          dk[c] += ds * q[c];
          dv[c] += p * dy[c];
        }
      }
    }
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Generated kernels
//===----------------------------------------------------------------------===//

/// A generator's name with the sizes that the types give; positions come behind the
/// other operands.
template <typename Op>
static LibraryKernel attentionKernel(Op op, StringRef generator, unsigned operands,
                                     SmallVector<unsigned> results) {
  RankedTensorType query = op.getQuery().getType();
  LibraryKernel kernel{generator, {}, std::move(results), {}};
  for (unsigned i = 0; i < operands + op.getPositions().size(); ++i)
    kernel.operands.push_back(i);
  for (auto [name, size] : llvm::zip(dimNames(query), query.getShape()))
    kernel.sizes.push_back({name.getValue(), static_cast<double>(size)});
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
  return {attentionKernel(*this, "attention.forward", 3, {0, 1})};
}

SmallVector<LibraryKernel> AttentionGradOp::getLibraryKernels() {
  return {attentionKernel(*this, "attention.backward_query", 6, {0}),
          attentionKernel(*this, "attention.backward_key_value", 6, {1, 2})};
}

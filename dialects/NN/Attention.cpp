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
                                          getFrequenciesAttr(), flipped)
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
      y[k] = x[k] * c - x[k + half] * s;
      y[k + half] = x[k + half] * c + x[k] * s;
    }
    ++row;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// attention
//===----------------------------------------------------------------------===//

/// Queries, keys and values of an attention or of its gradient, and the values
/// that there are one of for each row of scores.
static LogicalResult verifyAttention(Operation *op, Value query, ValueRange keys, Value lse,
                                     std::optional<uint64_t> window,
                                     std::optional<llvm::APFloat> cap) {
  if (window && static_cast<int64_t>(*window) < 1)
    return op->emitOpError("has a window in which a position does not see itself");
  if (cap && !(cap->isFinite() && cap->convertToDouble() > 0))
    return op->emitOpError("needs a cap above 0");
  auto names = [&](std::initializer_list<StringRef> list) {
    SmallVector<StringAttr> out;
    for (StringRef n : list)
      out.push_back(StringAttr::get(op->getContext(), n));
    return out;
  };
  auto grouped = names({"batch", "sequence", "kv_head", "group", "head_dim"});
  auto single = names({"batch", "sequence", "kv_head", "head_dim"});
  auto rows = dimNames(query);
  if (rows != ArrayRef(grouped) && rows != ArrayRef(single))
    return op->emitOpError(
        "needs a query of dimensions batch, sequence, kv_head, [group,] head_dim, in this order");
  if (failed(verifyDims(op, keys, single, "keys and values")) ||
      failed(verifyDims(op, lse, rows.drop_back(), "a log-sum-exp")))
    return failure();
  return verifySizesByName(op);
}

LogicalResult AttentionOp::verify() {
  if (getType(0) != getQuery().getType())
    return emitOpError("needs a result of its query's type");
  return verifyAttention(*this, getQuery(), {getKey(), getValue()}, getLse(), getWindow(),
                         getCap());
}

LogicalResult AttentionGradOp::verify() {
  if (failed(verifyDims(*this, {getResult(), getGradient(), getQueryGradient()},
                        dimNames(getQuery()), "a result and gradients")))
    return failure();
  return verifyAttention(*this, getQuery(),
                         {getKey(), getValue(), getKeyGradient(), getValueGradient()}, getLse(),
                         getWindow(), getCap());
}

/// Batch and heads can be cut; the sequence is seen whole by every query.
static ShardingRule attentionRule(Operation *op, int linear) {
  ShardingRule rule = ruleByNames(op);
  for (StringRef whole : {"sequence", "head_dim"})
    rule.factors[rule.find(whole)].shardable = false;
  if (linear >= 0) {
    rule.linear = {{linear}};
    setNeutralOperand(rule, linear);
  }
  return rule;
}

ShardingRule AttentionOp::getShardingRule() { return attentionRule(*this, -1); }
ShardingRule AttentionGradOp::getShardingRule() { return attentionRule(*this, 5); }

SmallVector<Value> AttentionOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool>) {
  auto grad =
      AttentionGradOp::create(b, getLoc(), getQuery().getType(), getKey().getType(),
                              getValue().getType(), getQuery(), getKey(), getValue(), getResult(),
                              getLse(), g[0], getScaleAttr(), getWindowAttr(), getCapAttr());
  return SmallVector<Value>(grad.getResults());
}

namespace {
/// The sizes of an attention and where its rows lie, row-major.
struct AttentionShape {
  int64_t batch, sequence, heads, group, width;

  AttentionShape(const HostTensor &query, const HostTensor &key)
      : batch(key.shape[0]), sequence(key.shape[1]), heads(key.shape[2]),
        group(query.rank() == 5 ? query.shape[3] : 1), width(key.shape[3]) {}

  int64_t queryRow(int64_t b, int64_t s, int64_t h, int64_t g) const {
    return ((b * sequence + s) * heads + h) * group + g;
  }
  int64_t keyRow(int64_t b, int64_t s, int64_t h) const { return (b * sequence + s) * heads + h; }

  /// Calls `fn(b, h, g)` for every query head.
  template <typename Fn> void forEachHead(Fn fn) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t g = 0; g < group; ++g)
          fn(b, h, g);
  }
};
} // namespace

/// The first position that position `i` sees.
static int64_t firstSeen(int64_t i, std::optional<uint64_t> window) {
  return window ? std::max<int64_t>(0, i - static_cast<int64_t>(*window) + 1) : 0;
}

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
  AttentionShape shape(*in[0], *in[1]);
  double scale = getScale().convertToDouble();
  double cap = getCap() ? getCap()->convertToDouble() : 0;
  int64_t w = shape.width;
  shape.forEachHead([&](int64_t b, int64_t h, int64_t g) {
    for (int64_t i = 0; i < shape.sequence; ++i) {
      int64_t row = shape.queryRow(b, i, h, g), first = firstSeen(i, getWindow());
      std::vector<double> score(i + 1, -INFINITY);
      double max = -INFINITY, sum = 0;
      for (int64_t j = first; j <= i; ++j) {
        score[j] = scale * dot(rowOf(*in[0], row, w), rowOf(*in[1], shape.keyRow(b, j, h), w), w);
        if (cap > 0)
          score[j] = cap * std::tanh(score[j] / cap);
        max = std::max(max, score[j]);
      }
      for (double s : score)
        sum += std::exp(s - max);
      double lse = max + std::log(sum), *y = rowOf(out[0], row, w);
      out[1].data[row] = lse;
      std::fill_n(y, w, 0.0);
      for (int64_t j = first; j <= i; ++j) {
        const double *v = rowOf(*in[2], shape.keyRow(b, j, h), w);
        for (int64_t k = 0; k < w; ++k)
          y[k] += std::exp(score[j] - lse) * v[k];
      }
    }
  });
  return success();
}

LogicalResult AttentionGradOp::interpret(ArrayRef<const HostTensor *> in,
                                         MutableArrayRef<HostTensor> out) {
  AttentionShape shape(*in[0], *in[1]);
  double scale = getScale().convertToDouble();
  double cap = getCap() ? getCap()->convertToDouble() : 0;
  int64_t w = shape.width;
  for (HostTensor &t : out)
    std::fill(t.data.begin(), t.data.end(), 0.0);
  shape.forEachHead([&](int64_t b, int64_t h, int64_t g) {
    for (int64_t i = 0; i < shape.sequence; ++i) {
      int64_t row = shape.queryRow(b, i, h, g);
      const double *q = rowOf(*in[0], row, w), *dy = rowOf(*in[5], row, w);
      double delta = dot(rowOf(*in[3], row, w), dy, w), *dq = rowOf(out[0], row, w);
      for (int64_t j = firstSeen(i, getWindow()); j <= i; ++j) {
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

/// A generator's name with the sizes that the types give.
template <typename Op>
static LibraryKernel attentionKernel(Op op, StringRef generator, SmallVector<unsigned> operands,
                                     SmallVector<unsigned> results) {
  RankedTensorType query = op.getQuery().getType();
  LibraryKernel kernel{generator, std::move(operands), std::move(results), {}};
  for (auto [name, size] : llvm::zip(dimNames(query), query.getShape()))
    kernel.sizes.push_back({name.getValue(), static_cast<double>(size)});
  kernel.sizes.push_back({"scale", op.getScale().convertToDouble()});
  if (op.getWindow())
    kernel.sizes.push_back({"window", static_cast<double>(*op.getWindow())});
  if (op.getCap())
    kernel.sizes.push_back({"cap", op.getCap()->convertToDouble()});
  return kernel;
}

SmallVector<LibraryKernel> AttentionOp::getLibraryKernels() {
  return {attentionKernel(*this, "attention.forward", {0, 1, 2}, {0, 1})};
}

SmallVector<LibraryKernel> AttentionGradOp::getLibraryKernels() {
  return {attentionKernel(*this, "attention.backward_query", {0, 1, 2, 3, 4, 5}, {0}),
          attentionKernel(*this, "attention.backward_key_value", {0, 1, 2, 3, 4, 5}, {1, 2})};
}

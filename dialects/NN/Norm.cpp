//===- Norm.cpp - Normalisations -------------------------------------------===//
//
// A norm works on rows: the dimensions of its weight are the last ones of its
// input, all the others count rows.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"
#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

/// The weight's dimensions end the input's, and `rowValues` are the others.
static LogicalResult verifyNorm(Operation *op, RankedTensorType input, RankedTensorType weight,
                                TypeRange rowValues) {
  auto names = dimNames(input), inner = dimNames(weight);
  if (inner.empty() || inner.size() >= names.size() || names.take_back(inner.size()) != inner)
    return op->emitOpError("needs a weight whose dimensions are the last ones of the input");
  for (Type t : rowValues)
    if (dimNames(t) != names.drop_back(inner.size()))
      return op->emitOpError("needs one statistic for each row of the input");
  return verifySizesByName(op);
}

/// Rows can be cut, the normalised dimensions cannot. `linear`: the operand
/// that is a gradient, or -1.
static ShardingRule normRule(Operation *op, Type weight, int linear) {
  ShardingRule rule = ruleByNames(op);
  keepWhole(rule, weight);
  if (linear >= 0) {
    rule.linear = {{linear}};
    setNeutralOperand(rule, linear);
  }
  return rule;
}

//===----------------------------------------------------------------------===//
// rms_norm
//===----------------------------------------------------------------------===//

LogicalResult RmsNormOp::verify() {
  return verifyNorm(*this, getInput().getType(), getWeight().getType(), {getRstd().getType()});
}

ShardingRule RmsNormOp::getShardingRule() { return normRule(*this, getWeight().getType(), -1); }

SmallVector<Value> RmsNormOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool>) {
  auto grad = RmsNormGradOp::create(b, getLoc(), getInput().getType(), getWeight().getType(),
                                    getInput(), getWeight(), getRstd(), g[0]);
  return {grad.getInputGradient(), grad.getWeightGradient()};
}

LogicalResult RmsNormOp::interpret(ArrayRef<const HostTensor *> in,
                                   MutableArrayRef<HostTensor> out) {
  int64_t n = in[1]->size(), rows = in[0]->size() / n;
  for (int64_t r = 0; r < rows; ++r) {
    const double *x = in[0]->data.data() + r * n;
    double squares = 0;
    for (int64_t i = 0; i < n; ++i)
      squares += x[i] * x[i];
    double rstd = 1.0 / std::sqrt(squares / n + getEps().convertToDouble());
    out[1].data[r] = rstd;
    for (int64_t i = 0; i < n; ++i)
      out[0].data[r * n + i] = x[i] * rstd * in[1]->data[i];
  }
  return success();
}

LogicalResult RmsNormGradOp::verify() {
  if (failed(verifyDims(*this, {getGradient(), getInputGradient()}, dimNames(getInput()),
                        "gradients")) ||
      failed(verifyDims(*this, getWeightGradient(), dimNames(getWeight()), "a weight gradient")))
    return failure();
  return verifyNorm(*this, getInput().getType(), getWeight().getType(), {getRstd().getType()});
}

ShardingRule RmsNormGradOp::getShardingRule() { return normRule(*this, getWeight().getType(), 3); }

LogicalResult RmsNormGradOp::interpret(ArrayRef<const HostTensor *> in,
                                       MutableArrayRef<HostTensor> out) {
  int64_t n = in[1]->size(), rows = in[0]->size() / n;
  const auto &w = in[1]->data;
  std::fill(out[1].data.begin(), out[1].data.end(), 0.0);
  for (int64_t r = 0; r < rows; ++r) {
    const double *x = in[0]->data.data() + r * n, *dy = in[3]->data.data() + r * n;
    double rstd = in[2]->data[r], dot = 0;
    for (int64_t i = 0; i < n; ++i)
      dot += dy[i] * w[i] * x[i];
    for (int64_t i = 0; i < n; ++i) {
      out[0].data[r * n + i] = rstd * (dy[i] * w[i] - x[i] * rstd * rstd * dot / n);
      out[1].data[i] += dy[i] * x[i] * rstd;
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// layer_norm
//===----------------------------------------------------------------------===//

LogicalResult LayerNormOp::verify() {
  if (failed(verifyDims(*this, getBias(), dimNames(getWeight()), "a bias")))
    return failure();
  return verifyNorm(*this, getInput().getType(), getWeight().getType(),
                    {getMean().getType(), getRstd().getType()});
}

ShardingRule LayerNormOp::getShardingRule() { return normRule(*this, getWeight().getType(), -1); }

SmallVector<Value> LayerNormOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool>) {
  auto grad = LayerNormGradOp::create(b, getLoc(), getInput().getType(), getWeight().getType(),
                                      getBias().getType(), getInput(), getWeight(), getMean(),
                                      getRstd(), g[0]);
  return {grad.getInputGradient(), grad.getWeightGradient(), grad.getBiasGradient()};
}

LogicalResult LayerNormOp::interpret(ArrayRef<const HostTensor *> in,
                                     MutableArrayRef<HostTensor> out) {
  int64_t n = in[1]->size(), rows = in[0]->size() / n;
  for (int64_t r = 0; r < rows; ++r) {
    const double *x = in[0]->data.data() + r * n;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; ++i)
      mean += x[i] / n;
    for (int64_t i = 0; i < n; ++i)
      variance += (x[i] - mean) * (x[i] - mean) / n;
    double rstd = 1.0 / std::sqrt(variance + getEps().convertToDouble());
    out[1].data[r] = mean;
    out[2].data[r] = rstd;
    for (int64_t i = 0; i < n; ++i)
      out[0].data[r * n + i] = (x[i] - mean) * rstd * in[1]->data[i] + in[2]->data[i];
  }
  return success();
}

LogicalResult LayerNormGradOp::verify() {
  if (failed(verifyDims(*this, {getGradient(), getInputGradient()}, dimNames(getInput()),
                        "gradients")) ||
      failed(verifyDims(*this, {getWeightGradient(), getBiasGradient()}, dimNames(getWeight()),
                        "weight and bias gradients")))
    return failure();
  return verifyNorm(*this, getInput().getType(), getWeight().getType(),
                    {getMean().getType(), getRstd().getType()});
}

ShardingRule LayerNormGradOp::getShardingRule() {
  return normRule(*this, getWeight().getType(), 4);
}

LogicalResult LayerNormGradOp::interpret(ArrayRef<const HostTensor *> in,
                                         MutableArrayRef<HostTensor> out) {
  int64_t n = in[1]->size(), rows = in[0]->size() / n;
  const auto &w = in[1]->data;
  std::fill(out[1].data.begin(), out[1].data.end(), 0.0);
  std::fill(out[2].data.begin(), out[2].data.end(), 0.0);
  for (int64_t r = 0; r < rows; ++r) {
    const double *x = in[0]->data.data() + r * n, *dy = in[4]->data.data() + r * n;
    double mean = in[2]->data[r], rstd = in[3]->data[r], sum = 0, dot = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum += dy[i] * w[i] / n;
      dot += dy[i] * w[i] * (x[i] - mean) * rstd / n;
    }
    for (int64_t i = 0; i < n; ++i) {
      double normal = (x[i] - mean) * rstd;
      out[0].data[r * n + i] = rstd * (dy[i] * w[i] - sum - normal * dot);
      out[1].data[i] += dy[i] * normal;
      out[2].data[i] += dy[i];
    }
  }
  return success();
}

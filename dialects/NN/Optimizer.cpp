//===- Optimizer.cpp - Gradient norm and AdamW -----------------------------===//

#include "dialects/NN/NN.h"
#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

LogicalResult ClipScaleOp::verify() {
  return verifyDims(*this, {getTotal(), getNorm(), getScale()}, {}, "scalars");
}

LogicalResult ReciprocalOp::verify() {
  return verifyDims(*this, {getInput(), getResult()}, {}, "scalars");
}

LogicalResult AdamWOp::verify() {
  if (failed(verifyDims(*this,
                        {getGradient(), getMoment1(), getMoment2(), getNewValue(), getNewMoment1(),
                         getNewMoment2()},
                        dimNames(getValue()), "a gradient, moments and results")) ||
      failed(verifyDims(*this, {getScale(), getRate(), getCorrection1(), getCorrection2()}, {},
                        "scalars")))
    return failure();
  return verifySizesByName(*this);
}

ShardingRule SumSquaresOp::getShardingRule() { return ruleByNames(*this); }

LogicalResult SumSquaresOp::verify() {
  for (StringAttr n : dimNames(getType()))
    if (findDim(getInput().getType(), n) < 0)
      return emitOpError() << "has the dimension '" << n.getValue() << "', which its input lacks";
  return verifySizesByName(*this);
}

LogicalResult SumSquaresOp::interpret(ArrayRef<const HostTensor *> in,
                                      MutableArrayRef<HostTensor> out) {
  std::fill(out[0].data.begin(), out[0].data.end(), 0.0);
  SmallVector<int64_t> strides(in[0]->shape.size(), 0), own = out[0].strides();
  for (auto [d, n] : llvm::enumerate(dimNames(getInput())))
    if (int r = findDim(getType(), n); r >= 0)
      strides[d] = own[r];
  size_t position = 0;
  forEachIndex(in[0]->shape, [&](ArrayRef<int64_t> i) {
    double x = in[0]->data[position++];
    out[0].data[linearIndex(i, strides)] += x * x;
  });
  return success();
}

ShardingRule ClipScaleOp::getShardingRule() { return ruleByNames(*this); }

LogicalResult ClipScaleOp::interpret(ArrayRef<const HostTensor *> in,
                                     MutableArrayRef<HostTensor> out) {
  double norm = std::sqrt(in[0]->data[0]);
  out[0].data[0] = norm;
  out[1].data[0] =
      getMaxNorm() ? std::min(1.0, getMaxNorm()->convertToDouble() / (norm + 1e-6)) : 1.0;
  return success();
}

ShardingRule ReciprocalOp::getShardingRule() { return ruleByNames(*this); }

LogicalResult ReciprocalOp::interpret(ArrayRef<const HostTensor *> in,
                                      MutableArrayRef<HostTensor> out) {
  out[0].data[0] = in[0]->data[0] == 0 ? 0.0 : 1.0 / in[0]->data[0];
  return success();
}

ShardingRule AdamWOp::getShardingRule() { return ruleByNames(*this); }

LogicalResult AdamWOp::interpret(ArrayRef<const HostTensor *> in, MutableArrayRef<HostTensor> out) {
  double b1 = getBeta1().convertToDouble(), b2 = getBeta2().convertToDouble();
  double eps = getEps().convertToDouble(), decay = getWeightDecay().convertToDouble();
  double scale = in[4]->data[0], rate = in[5]->data[0], c1 = in[6]->data[0], c2 = in[7]->data[0];
  for (int64_t i = 0; i < in[0]->size(); ++i) {
    double g = in[1]->data[i] * scale;
    double m = b1 * in[2]->data[i] + (1 - b1) * g, v = b2 * in[3]->data[i] + (1 - b2) * g * g;
    out[0].data[i] =
        in[0]->data[i] * (1 - rate * decay) - rate * (m / c1) / (std::sqrt(v / c2) + eps);
    out[1].data[i] = m;
    out[2].data[i] = v;
  }
  return success();
}

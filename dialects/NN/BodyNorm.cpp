//===- BodyNorm.cpp - Bodies of normalisations -----------------------------===//

#include "dialects/NN/Body.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

using Types = ArrayRef<RankedTensorType>;

/// A norm ties the elements of a row of the input: the weight's dimensions, in
/// results that have rows. A weight gradient goes along columns and is free.
static FusionDims normDims(RankedTensorType result, RankedTensorType input,
                           RankedTensorType weight) {
  FusionDims dims;
  if (result.getRank() == input.getRank())
    for (int64_t d = result.getRank() - weight.getRank(); d < result.getRank(); ++d)
      dims.mixed.push_back(d);
  return dims;
}

#define NORM_DIMS(OP)                                                                              \
  FusionDims OP::getFusionDims(unsigned result) {                                                  \
    return normDims(cast<RankedTensorType>((*this)->getResult(result).getType()),                  \
                    getInput().getType(), getWeight().getType());                                  \
  }
NORM_DIMS(RmsNormOp)
NORM_DIMS(RmsNormGradOp)
NORM_DIMS(LayerNormOp)
NORM_DIMS(LayerNormGradOp)
#undef NORM_DIMS

/// Elements of a row.
static double widthOf(Value weight) {
  return static_cast<double>(tensorType(weight).getNumElements());
}

SmallVector<Value> RmsNormOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  Body body(b, getLoc());
  Value x = operands[0], weight = operands[1];
  double n = widthOf(weight), eps = getEps().convertToDouble();
  RankedTensorType row = types[1] ? types[1] : without(tensorType(x), tensorType(weight));
  Value squares = body.sum(row, x, [](const BodyPoint &p) { return p[0] * p[0]; });
  Value rstd = body.map(row, squares, [&](const BodyPoint &p) { return (p[0] / n + eps).rsqrt(); });
  SmallVector<Value> out(2);
  if (types[0])
    out[0] = body.map(types[0], {x, rstd, weight},
                      [](const BodyPoint &p) { return p[0] * p[1] * p[2]; });
  if (types[1])
    out[1] = rstd;
  return out;
}

SmallVector<Value> RmsNormGradOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  Body body(b, getLoc());
  Value x = operands[0], weight = operands[1], rstd = operands[2], dy = operands[3];
  SmallVector<Value> out(2);
  if (types[0]) {
    double n = widthOf(weight);
    RankedTensorType row = without(types[0], tensorType(weight));
    Value dot =
        body.sum(row, {dy, weight, x}, [](const BodyPoint &p) { return p[0] * p[1] * p[2]; });
    out[0] = body.map(types[0], {x, weight, rstd, dy, dot}, [&](const BodyPoint &p) {
      BodyScalar r = p[2];
      return r * (p[3] * p[1] - p[0] * (r * r * (p[4] / n)));
    });
  }
  if (types[1])
    out[1] =
        body.sum(types[1], {dy, x, rstd}, [](const BodyPoint &p) { return p[0] * (p[1] * p[2]); });
  return out;
}

SmallVector<Value> LayerNormOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  Body body(b, getLoc());
  Value x = operands[0], weight = operands[1], bias = operands[2];
  double n = widthOf(weight), eps = getEps().convertToDouble();
  RankedTensorType row = without(tensorType(x), tensorType(weight));
  for (RankedTensorType statistic : {types[1], types[2]})
    if (statistic)
      row = statistic;
  Value sum = body.sum(row, x, [](const BodyPoint &p) { return p[0]; });
  Value mean = body.map(row, sum, [&](const BodyPoint &p) { return p[0] / n; });
  Value squares = body.sum(row, {x, mean}, [](const BodyPoint &p) {
    BodyScalar d = p[0] - p[1];
    return d * d;
  });
  Value rstd = body.map(row, squares, [&](const BodyPoint &p) { return (p[0] / n + eps).rsqrt(); });
  SmallVector<Value> out(3);
  if (types[0])
    out[0] = body.map(types[0], {x, mean, rstd, weight, bias},
                      [](const BodyPoint &p) { return (p[0] - p[1]) * p[2] * p[3] + p[4]; });
  if (types[1])
    out[1] = mean;
  if (types[2])
    out[2] = rstd;
  return out;
}

SmallVector<Value> LayerNormGradOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  Body body(b, getLoc());
  Value x = operands[0], weight = operands[1], mean = operands[2], rstd = operands[3],
        dy = operands[4];
  SmallVector<Value> out(3);
  if (types[0]) {
    double n = widthOf(weight);
    RankedTensorType row = without(types[0], tensorType(weight));
    Value sum = body.sum(row, {dy, weight}, [](const BodyPoint &p) { return p[0] * p[1]; });
    Value dot = body.sum(row, {dy, weight, x, mean, rstd},
                         [](const BodyPoint &p) { return p[0] * p[1] * ((p[2] - p[3]) * p[4]); });
    out[0] = body.map(types[0], {x, weight, mean, rstd, dy, sum, dot}, [&](const BodyPoint &p) {
      BodyScalar normal = (p[0] - p[2]) * p[3];
      return p[3] * (p[4] * p[1] - p[5] / n - normal * (p[6] / n));
    });
  }
  if (types[1])
    out[1] = body.sum(types[1], {dy, x, mean, rstd},
                      [](const BodyPoint &p) { return p[0] * ((p[1] - p[2]) * p[3]); });
  if (types[2])
    out[2] = body.sum(types[2], dy, [](const BodyPoint &p) { return p[0]; });
  return out;
}

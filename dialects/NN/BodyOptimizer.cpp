//===- BodyOptimizer.cpp - Bodies of gradient norm and AdamW ---------------===//

#include "dialects/NN/Body.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

using Types = ArrayRef<RankedTensorType>;

SmallVector<Value> SumSquaresOp::buildStages(OpBuilder &b) {
  RankedTensorType partial = partialSums(getInput().getType(), getType());
  if (!partial)
    return {};
  Value parts = SumSquaresOp::create(b, getLoc(), partial, getInput());
  return {SumOp::create(b, getLoc(), getType(), parts)};
}

SmallVector<Value> SumSquaresOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return {
      Body(b, getLoc()).sum(types[0], operands, [](const BodyPoint &p) { return p[0] * p[0]; })};
}

SmallVector<Value> ClipScaleOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  Body body(b, getLoc());
  SmallVector<Value> out(2);
  if (types[0])
    out[0] = body.map(types[0], operands, [](const BodyPoint &p) { return p[0].sqrt(); });
  if (types[1])
    out[1] = body.map(types[1], operands, [&](const BodyPoint &p) {
      BodyScalar one = p.number(1.0);
      if (!getMaxNorm())
        return one;
      return one.min(getMaxNorm()->convertToDouble() / (p[0].sqrt() + 1e-6));
    });
  return out;
}

SmallVector<Value> ReciprocalOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return {Body(b, getLoc()).map(types[0], operands, [](const BodyPoint &p) {
    return (p[0] == 0.0).select(p.number(0.0), 1.0 / p[0]);
  })};
}

int AdamWOp::getInPlaceOperand(unsigned result) {
  return result == 0 ? 0 : static_cast<int>(result) + 1;
}

SmallVector<Value> AdamWOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  Body body(b, getLoc());
  Value value = operands[0], gradient = operands[1], scale = operands[4];
  double beta1 = getBeta1().convertToDouble(), beta2 = getBeta2().convertToDouble();
  double eps = getEps().convertToDouble(), decay = getWeightDecay().convertToDouble();
  RankedTensorType type = *llvm::find_if(types, [](RankedTensorType t) { return bool(t); });
  Value m = body.map(type, {operands[2], gradient, scale}, [&](const BodyPoint &p) {
    return beta1 * p[0] + (1.0 - beta1) * (p[1] * p[2]);
  });
  Value v = body.map(type, {operands[3], gradient, scale}, [&](const BodyPoint &p) {
    BodyScalar g = p[1] * p[2];
    return beta2 * p[0] + (1.0 - beta2) * (g * g);
  });
  SmallVector<Value> out(3);
  if (types[0])
    out[0] = body.map(type, {value, m, v, operands[5], operands[6], operands[7]},
                      [&](const BodyPoint &p) {
                        BodyScalar rate = p[3], step = p[1] / p[4];
                        BodyScalar size = (p[2] / p[5]).sqrt() + eps;
                        return p[0] * (1.0 - rate * decay) - rate * (step / size);
                      });
  if (types[1])
    out[1] = m;
  if (types[2])
    out[2] = v;
  return out;
}

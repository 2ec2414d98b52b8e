//===- BodyRouting.cpp - Bodies of softmax, top-k and picks ----------------===//

#include "dialects/NN/Body.h"
#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

using Types = ArrayRef<RankedTensorType>;

/// The last dimension of a result, which other elements of an operand go into.
static FusionDims mixedLast(Value result) { return {{tensorType(result).getRank() - 1}, {}}; }
/// The last dimension of a result, along which positions are counted.
static FusionDims apartLast(Value result) { return {{}, {tensorType(result).getRank() - 1}}; }

/// `type` without its last dimension.
static RankedTensorType rowOf(RankedTensorType type, Type element) {
  return namedTensor(element, type.getShape().drop_back(), dimNames(type).drop_back());
}
static RankedTensorType rowOf(RankedTensorType type) { return rowOf(type, type.getElementType()); }

//===----------------------------------------------------------------------===//
// softmax
//===----------------------------------------------------------------------===//

FusionDims SoftmaxOp::getFusionDims(unsigned) { return mixedLast(getResult()); }

SmallVector<Value> SoftmaxOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  Body body(b, getLoc());
  Value x = operands[0];
  RankedTensorType row = rowOf(types[0]);
  Value max = body.max(row, x, [](const BodyPoint &p) { return p[0]; });
  Value sum = body.sum(row, {x, max}, [](const BodyPoint &p) { return (p[0] - p[1]).exp(); });
  return {body.map(types[0], {x, max, sum},
                   [](const BodyPoint &p) { return (p[0] - p[1]).exp() / p[2]; })};
}

FusionDims SoftmaxGradOp::getFusionDims(unsigned) { return mixedLast(getInputGradient()); }

SmallVector<Value> SoftmaxGradOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  Body body(b, getLoc());
  Value dot = body.sum(rowOf(types[0]), operands, [](const BodyPoint &p) { return p[0] * p[1]; });
  return {body.map(types[0], {operands[0], operands[1], dot},
                   [](const BodyPoint &p) { return p[0] * (p[1] - p[2]); })};
}

//===----------------------------------------------------------------------===//
// top_k
//===----------------------------------------------------------------------===//

FusionDims TopKOp::getFusionDims(unsigned) { return apartLast(getIndices()); }

/// Takes the largest out of the rest, as often as there are choices. Indices are
/// floats on the way, so that the first of equal elements is a maximum too.
SmallVector<Value> TopKOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  Body body(b, getLoc());
  RankedTensorType all = tensorType(operands[0]), row = rowOf(types[0], all.getElementType());
  StringAttr along = dimNames(all).back();
  const int64_t width = all.getShape().back();
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  auto index = [&](const BodyPoint &p) { return p.position(along).toFloat(); };
  Value rest = operands[0];
  SmallVector<Value> chosen;
  for (int64_t i = 0; i < types[0].getShape().back(); ++i) {
    if (i > 0)
      rest = body.map(all, {rest, chosen.back()}, [&](const BodyPoint &p) {
        return (p[1] == index(p)).select(p.number(kNone), p[0]);
      });
    Value max = body.max(row, rest, [](const BodyPoint &p) { return p[0]; });
    Value first = body.max(row, {rest, max}, [&](const BodyPoint &p) {
      return (p[0] == p[1]).select(-index(p), static_cast<double>(1 - width));
    });
    chosen.push_back(body.map(row, first, [](const BodyPoint &p) { return -p[0]; }));
  }
  return {body.map(types[0], chosen, [&](const BodyPoint &p) {
    BodyScalar at = p.position(dimNames(types[0]).back()), value = p[0].toInteger();
    for (size_t i = 1; i < chosen.size(); ++i)
      value = (at == static_cast<double>(i)).select(p[i].toInteger(), value);
    return value;
  })};
}

//===----------------------------------------------------------------------===//
// pick, place
//===----------------------------------------------------------------------===//

FusionDims PickOp::getFusionDims(unsigned) { return apartLast(getResult()); }

SmallVector<Value> PickOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  StringAttr along = dimNames(operands[0]).back();
  return {Body(b, getLoc()).sum(types[0], operands, [&](const BodyPoint &p) {
    return (p.position(along) == p[1]).select(p[0], 0.0);
  })};
}

FusionDims PlaceOp::getFusionDims(unsigned) { return apartLast(getResult()); }

SmallVector<Value> PlaceOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  StringAttr along = dimNames(types[0]).back();
  return {Body(b, getLoc()).sum(types[0], operands, [&](const BodyPoint &p) {
    return (p.position(along) == p[1]).select(p[0], 0.0);
  })};
}

SmallVector<Value> CountPicksOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  StringAttr along = dimNames(types[0]).back();
  return {Body(b, getLoc()).sum(types[0], operands, [&](const BodyPoint &p) {
    return (p[0] == p.position(along)).select(p.number(1.0), 0.0);
  })};
}

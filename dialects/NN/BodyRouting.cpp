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

//===----------------------------------------------------------------------===//
// keep_groups, normalize
//===----------------------------------------------------------------------===//

FusionDims KeepGroupsOp::getFusionDims(unsigned) { return mixedLast(getResult()); }

/// A row's sums of the largest scores of each group, then how many groups are better.
SmallVector<Value> KeepGroupsOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  Body body(b, getLoc());
  RankedTensorType all = types[0], row = rowOf(all);
  StringAttr along = dimNames(all).back();
  Value x = operands[0];
  const auto groups = static_cast<int64_t>(getGroups()), keep = static_cast<int64_t>(getKeep());
  const int64_t each = all.getShape().back() / groups;
  const double none = -std::numeric_limits<double>::infinity();
  auto inGroup = [&](const BodyPoint &p, int64_t g) {
    BodyScalar at = p.position(along);
    return (at >= static_cast<double>(g * each)).both(at < static_cast<double>((g + 1) * each));
  };
  SmallVector<Value> worth;
  for (int64_t g = 0; g < groups; ++g) {
    Value rest = body.map(
        all, x, [&](const BodyPoint &p) { return inGroup(p, g).select(p[0], p.number(none)); });
    Value sum;
    for (uint64_t i = 0; i < getTake(); ++i) {
      Value max = body.max(row, rest, [](const BodyPoint &p) { return p[0]; });
      sum = sum ? body.map(row, {sum, max}, [](const BodyPoint &p) { return p[0] + p[1]; }) : max;
      if (i + 1 == getTake())
        break;
      // Without the first of the largest.
      Value first = body.max(row, {rest, max}, [&](const BodyPoint &p) {
        return (p[0] == p[1]).select(-p.position(along).toFloat(), none);
      });
      rest = body.map(all, {rest, first}, [&](const BodyPoint &p) {
        return (-p.position(along).toFloat() == p[1]).select(p.number(none), p[0]);
      });
    }
    worth.push_back(sum);
  }
  SmallVector<Value> kept;
  for (int64_t g = 0; g < groups; ++g)
    kept.push_back(body.map(row, worth, [&](const BodyPoint &p) {
      BodyScalar better = p.number(0.0);
      for (int64_t o = 0; o < groups; ++o)
        if (o != g)
          better = better + (o < g ? p[o] >= p[g] : p[o] > p[g]).select(p.number(1.0), 0.0);
      return (better < static_cast<double>(keep)).select(p.number(1.0), 0.0);
    }));
  SmallVector<Value> inputs = {x};
  llvm::append_range(inputs, kept);
  return {body.map(all, inputs, [&](const BodyPoint &p) {
    BodyScalar share = p.number(0.0);
    for (int64_t g = 0; g < groups; ++g)
      share = inGroup(p, g).select(p[g + 1], share);
    return (share > 0.5).select(p[0], 0.0);
  })};
}

/// Σ x + eps.
static Value sumOfRow(Body &body, Value x, double eps) {
  RankedTensorType row = rowOf(tensorType(x));
  Value sum = body.sum(row, x, [](const BodyPoint &p) { return p[0]; });
  return body.map(row, sum, [&](const BodyPoint &p) { return p[0] + eps; });
}

FusionDims NormalizeOp::getFusionDims(unsigned) { return mixedLast(getResult()); }

SmallVector<Value> NormalizeOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  Body body(b, getLoc());
  Value sum = sumOfRow(body, operands[0], getEps().convertToDouble());
  return {body.map(types[0], {operands[0], sum}, [](const BodyPoint &p) { return p[0] / p[1]; })};
}

FusionDims NormalizeGradOp::getFusionDims(unsigned) { return mixedLast(getInputGradient()); }

SmallVector<Value> NormalizeGradOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  Body body(b, getLoc());
  Value sum = sumOfRow(body, operands[0], getEps().convertToDouble());
  Value dot = body.sum(rowOf(types[0]), operands, [](const BodyPoint &p) { return p[0] * p[1]; });
  return {body.map(types[0], {operands[1], sum, dot},
                   [](const BodyPoint &p) { return (p[0] - p[2] / p[1]) / p[1]; })};
}

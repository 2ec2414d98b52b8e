//===- BodyElementwise.cpp - Bodies of elementwise operators and sums ------===//

#include "dialects/NN/Body.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

using Types = ArrayRef<RankedTensorType>;

/// An operator with one result, `formula` applied to the operands' elements.
static SmallVector<Value> mapBody(OpBuilder &b, Operation *op, ValueRange operands, Types types,
                                  Body::Formula formula) {
  return {Body(b, op->getLoc()).map(types[0], operands, formula)};
}

/// What is added to a kept tensor goes where that lies.
int AddOp::getInPlaceOperand(unsigned) { return getLhs().getType() == getType() ? 0 : -1; }

SmallVector<Value> AddOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return mapBody(b, *this, operands, types, [](const BodyPoint &x) { return x[0] + x[1]; });
}

SmallVector<Value> AddNOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return mapBody(b, *this, operands, types, [&](const BodyPoint &x) {
    BodyScalar sum = x[0];
    for (size_t i = 1; i < operands.size(); ++i)
      sum = sum + x[i];
    return sum;
  });
}

SmallVector<Value> MulOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return mapBody(b, *this, operands, types, [](const BodyPoint &x) { return x[0] * x[1]; });
}

SmallVector<Value> CastOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return mapBody(b, *this, operands, types, [&](const BodyPoint &x) {
    return isNarrowing() ? x[0].toBf16() : x[0].fromBf16();
  });
}

SmallVector<Value> SiluOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return mapBody(b, *this, operands, types,
                 [](const BodyPoint &x) { return x[0] * x[0].sigmoid(); });
}

SmallVector<Value> SiluGradOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return mapBody(b, *this, operands, types, [](const BodyPoint &x) {
    BodyScalar s = x[0].sigmoid();
    return x[1] * s * (1.0 + x[0] * (1.0 - s));
  });
}

SmallVector<Value> SigmoidOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return mapBody(b, *this, operands, types, [](const BodyPoint &x) { return x[0].sigmoid(); });
}

SmallVector<Value> SigmoidGradOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return mapBody(b, *this, operands, types, [](const BodyPoint &x) {
    BodyScalar s = x[0].sigmoid();
    return x[1] * s * (1.0 - s);
  });
}

static constexpr double kSqrt2OverPi = 0.79788456080286535588;
static constexpr double kGeluCubic = 0.044715;

/// tanh of GPT-2's approximation.
static BodyScalar geluTanh(const BodyScalar &x) {
  return (kSqrt2OverPi * (x + kGeluCubic * (x * x * x))).tanh();
}

SmallVector<Value> GeluOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return mapBody(b, *this, operands, types, [&](const BodyPoint &x) {
    BodyScalar shape = getTanh() ? geluTanh(x[0]) : (x[0] * M_SQRT1_2).erf();
    return 0.5 * x[0] * (1.0 + shape);
  });
}

SmallVector<Value> GeluGradOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return mapBody(b, *this, operands, types, [&](const BodyPoint &x) {
    BodyScalar v = x[0];
    if (!getTanh()) {
      BodyScalar density = (-0.5 * (v * v)).exp() * (1.0 / std::sqrt(2.0 * M_PI));
      return x[1] * (0.5 * (1.0 + (v * M_SQRT1_2).erf()) + v * density);
    }
    BodyScalar t = geluTanh(v);
    BodyScalar slope = kSqrt2OverPi * (1.0 + 3.0 * kGeluCubic * (v * v));
    return x[1] * (0.5 * (1.0 + t) + 0.5 * v * (1.0 - t * t) * slope);
  });
}

SmallVector<Value> SoftCapOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  double cap = getCap().convertToDouble();
  return mapBody(b, *this, operands, types,
                 [&](const BodyPoint &x) { return cap * (x[0] * (1.0 / cap)).tanh(); });
}

SmallVector<Value> SoftCapGradOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  double cap = getCap().convertToDouble();
  return mapBody(b, *this, operands, types, [&](const BodyPoint &x) {
    BodyScalar t = (x[0] * (1.0 / cap)).tanh();
    return x[1] * (1.0 - t * t);
  });
}

/// The smaller of the two; NaN stays.
static BodyScalar atMost(const BodyScalar &x, double limit) { return x.min(x.constant(limit)); }

/// The same of both signs.
static BodyScalar within(const BodyScalar &x, double limit) {
  return atMost(x, limit).max(x.constant(-limit));
}

SmallVector<Value> ClampedGluOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  double alpha = getAlpha().convertToDouble(), limit = getLimit().convertToDouble();
  return mapBody(b, *this, operands, types, [&](const BodyPoint &x) {
    BodyScalar g = atMost(x[0], limit);
    return (within(x[1], limit) + 1.0) * g * (alpha * g).sigmoid();
  });
}

SmallVector<Value> ClampedGluGateGradOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  double alpha = getAlpha().convertToDouble(), limit = getLimit().convertToDouble();
  return mapBody(b, *this, operands, types, [&](const BodyPoint &x) {
    BodyScalar s = (alpha * x[0]).sigmoid();
    BodyScalar slope = s * (1.0 + alpha * x[0] * (1.0 - s));
    return (x[0] > limit).select(x.number(0.0), x[2] * (within(x[1], limit) + 1.0) * slope);
  });
}

SmallVector<Value> ClampedGluUpGradOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  double alpha = getAlpha().convertToDouble(), limit = getLimit().convertToDouble();
  return mapBody(b, *this, operands, types, [&](const BodyPoint &x) {
    BodyScalar g = atMost(x[0], limit), value = x[2] * g * (alpha * g).sigmoid();
    BodyScalar low = (-x[1] > limit).select(x.number(0.0), value);
    return (x[1] > limit).select(x.number(0.0), low);
  });
}

SmallVector<Value> ReluOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return mapBody(b, *this, operands, types,
                 [](const BodyPoint &x) { return (x[0] > 0.0).select(x[0], 0.0); });
}

SmallVector<Value> ReluGradOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return mapBody(b, *this, operands, types,
                 [](const BodyPoint &x) { return (x[0] > 0.0).select(x[1], 0.0); });
}

//===----------------------------------------------------------------------===//
// sum, unstack, stack, fill
//===----------------------------------------------------------------------===//

SmallVector<Value> SumOp::buildStages(OpBuilder &b) {
  RankedTensorType partial = partialSums(getInput().getType(), getType());
  if (!partial)
    return {};
  Value parts = SumOp::create(b, getLoc(), partial, getInput());
  return {SumOp::create(b, getLoc(), getType(), parts)};
}

SmallVector<Value> SumOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return {Body(b, getLoc()).sum(types[0], operands, [](const BodyPoint &x) { return x[0]; })};
}

SmallVector<Value> UnstackOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  auto names = dimNames(operands[0]);
  SmallVector<Value> out;
  for (auto [i, type] : llvm::enumerate(types)) {
    if (!type) {
      out.push_back(Value());
      continue;
    }
    SmallVector<AffineExpr> from;
    for (StringAttr n : names)
      from.push_back(n == getDim() ? b.getAffineConstantExpr(i)
                                   : b.getAffineDimExpr(findDim(type, n)));
    SmallVector<AffineMap> maps = {AffineMap::get(type.getRank(), 0, from, b.getContext()),
                                   b.getMultiDimIdentityMap(type.getRank())};
    SmallVector<utils::IteratorType> kinds(type.getRank(), utils::IteratorType::parallel);
    Value init = tensor::EmptyOp::create(b, getLoc(), type.getShape(), type.getElementType(),
                                         type.getEncoding());
    auto copy = linalg::GenericOp::create(b, getLoc(), TypeRange(type), operands, init, maps, kinds,
                                          [](OpBuilder &inner, Location at, ValueRange args) {
                                            linalg::YieldOp::create(inner, at, args[0]);
                                          });
    out.push_back(copy.getResult(0));
  }
  return out;
}

SmallVector<Value> StackOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return mapBody(b, *this, operands, types, [&](const BodyPoint &x) {
    BodyScalar at = x.position(getDimAttr()), value = x[0];
    for (size_t i = 1; i < operands.size(); ++i)
      value = (at == static_cast<double>(i)).select(x[i], value);
    return value;
  });
}

SmallVector<Value> FillOp::buildBody(OpBuilder &b, ValueRange operands, Types types) {
  return mapBody(b, *this, operands, types,
                 [&](const BodyPoint &x) { return x.number(getValue().convertToDouble()); });
}

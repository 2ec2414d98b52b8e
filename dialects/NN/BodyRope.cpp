//===- BodyRope.cpp - Body of the rotary embedding -------------------------===//
//
// Angles are counted in turns. The product of a position and a frequency needs
// more bits than f32 has, so each frequency is a sum of two f32: with fma the
// fraction of a turn comes out to about 1e-7 for any position below 2^24.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/Body.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

FusionDims RopeOp::getFusionDims(unsigned) {
  FusionDims dims;
  dims.mixed.push_back(getType().getRank() - 1);
  return dims;
}

/// [2, n]: turns per position as the sum of two f32.
SmallVector<BodyInput> RopeOp::getBodyInputs() {
  SmallVector<float> high, low;
  for (double frequency : getFrequencies()) {
    double turns = frequency / (2.0 * M_PI);
    high.push_back(static_cast<float>(turns));
    low.push_back(static_cast<float>(turns - static_cast<double>(high.back())));
  }
  int64_t half = static_cast<int64_t>(high.size());
  high.append(low);
  auto type = RankedTensorType::get({2, half}, Float32Type::get(getContext()));
  return {BodyInput::ofTable(DenseElementsAttr::get(type, ArrayRef<float>(high)))};
}

/// sin(2π t) for |t| < 2^20: t is brought to a quarter turn, where a polynomial
/// of degree 13 is right to 1e-9.
static BodyScalar sineOfTurns(const BodyScalar &t) {
  BodyScalar x = t - t.nearest();
  x = (x > 0.25).select(0.5 - x, x);
  x = (x < -0.25).select(-0.5 - x, x);
  BodyScalar square = x * x;
  double factor = 2.0 * M_PI, coefficients[7];
  for (int k = 0; k < 7; ++k) {
    coefficients[k] = factor;
    factor *= -4.0 * M_PI * M_PI / ((2.0 * k + 2.0) * (2.0 * k + 3.0));
  }
  BodyScalar sum = x.constant(coefficients[6]);
  for (int k = 5; k >= 0; --k)
    sum = sum * square + coefficients[k];
  return sum * x;
}

/// Loops over the leading dimensions and three more, as in RopeOp::buildBody: of the last
/// two, `side` is which of a pair, `pair` which pair. Operands: the element, its partner,
/// the position, the frequency.
static SmallVector<AffineMap> ropeMaps(OpBuilder &b, RankedTensorType type, Value positions,
                                       int64_t side, int64_t pair) {
  int64_t lead = type.getRank() - 1, loops = lead + 3;
  SmallVector<AffineExpr> own, partner, position;
  for (int64_t d = 0; d < loops; ++d)
    own.push_back(b.getAffineDimExpr(d));
  partner = own;
  partner[side] = 1 - own[side];
  for (StringAttr name : dimNames(positions))
    position.push_back(own[findDim(type, name)]);
  auto map = [&](ArrayRef<AffineExpr> exprs) {
    return AffineMap::get(loops, 0, exprs, b.getContext());
  };
  AffineExpr zero = b.getAffineConstantExpr(0), one = b.getAffineConstantExpr(1);
  return {map(own), map(partner), map(position), map({zero, own[pair]}), map({one, own[pair]}),
          map(own)};
}

/// The last dimension becomes three: a block of 2n values, of which the first one is
/// turned, the half within the block, the pair (interleaved: the pair, which of it).
SmallVector<Value> RopeOp::buildBody(OpBuilder &b, ValueRange operands,
                                     ArrayRef<RankedTensorType> types) {
  Location loc = getLoc();
  RankedTensorType type = types[0], input = tensorType(operands[0]);
  int64_t lead = input.getRank() - 1, half = getFrequencies().size();
  int64_t blocks = input.getShape().back() / (2 * half);
  auto plain = RankedTensorType::get(input.getShape(), input.getElementType());
  SmallVector<int64_t> shape(input.getShape().drop_back());
  const int64_t side = lead + (getInterleaved() ? 2 : 1), pair = 2 * lead + 3 - side;
  shape.append({blocks, 2, half});
  if (getInterleaved())
    std::swap(shape[side], shape[pair]);
  SmallVector<ReassociationIndices> groups;
  for (int64_t d = 0; d < lead; ++d)
    groups.push_back({d});
  groups.push_back({lead, lead + 1, lead + 2});
  auto halves = RankedTensorType::get(shape, input.getElementType());
  Value x = tensor::CastOp::create(b, loc, plain, operands[0]);
  x = tensor::ExpandShapeOp::create(b, loc, halves, x, groups);

  Value init = tensor::EmptyOp::create(b, loc, shape, input.getElementType());
  SmallVector<utils::IteratorType> kinds(shape.size(), utils::IteratorType::parallel);
  auto turn = [&](OpBuilder &inner, Location at, ValueRange args) {
    BodyPoint p(inner, at, {}, args);
    BodyScalar position = p[2].toFloat(), high = p[3], low = p[4];
    BodyScalar turns = position.fma(high, -(position * high).nearest()) + position * low;
    BodyScalar sine = sineOfTurns(turns), cosine = sineOfTurns(turns + 0.25);
    auto index = [&](int64_t loop) {
      Value number = linalg::IndexOp::create(inner, at, loop);
      return BodyScalar(inner, at,
                        arith::IndexCastOp::create(inner, at, inner.getI32Type(), number));
    };
    // The first half turns towards minus the second one; backwards, the other way.
    BodyScalar part = index(side);
    BodyScalar sign = getInverse() ? part == 1.0 : part == 0.0;
    BodyScalar partner = sign.select(-p[1], p[1]);
    BodyScalar turned = p[0] * cosine + partner * sine;
    if (blocks > 1)
      turned = (index(lead) == 0.0).select(turned, p[0]);
    linalg::YieldOp::create(inner, at, turned.value());
  };
  Value rotated =
      linalg::GenericOp::create(b, loc, TypeRange(halves),
                                ValueRange{x, x, operands[1], operands[2], operands[2]}, init,
                                ropeMaps(b, input, operands[1], side, pair), kinds, turn)
          .getResult(0);
  Value joined = tensor::CollapseShapeOp::create(b, loc, plain, rotated, groups);
  if (type.getRank() != input.getRank()) { // a result with a dimension of size 1 in front
    SmallVector<ReassociationIndices> front = {{0, 1}};
    for (int64_t d = 2; d < type.getRank(); ++d)
      front.push_back({d});
    auto wide = RankedTensorType::get(type.getShape(), type.getElementType());
    joined = tensor::ExpandShapeOp::create(b, loc, wide, joined, front);
  }
  return {tensor::CastOp::create(b, loc, type, joined)};
}

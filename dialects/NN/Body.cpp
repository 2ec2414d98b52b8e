//===- Body.cpp - Kernel bodies by dimension names -------------------------===//

#include "dialects/NN/Body.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

BodyScalar BodyPoint::position(StringAttr name) const {
  const auto *at = llvm::find(loops, name);
  assert(at != loops.end() && "no loop has this name");
  Value index = linalg::IndexOp::create(builder, loc, at - loops.begin());
  return {builder, loc, arith::IndexCastOp::create(builder, loc, builder.getI32Type(), index)};
}

BodyScalar BodyPoint::number(double value) const {
  return {builder, loc, arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value))};
}

BodyScalar BodyPoint::integer(int64_t value) const {
  return {builder, loc, arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value))};
}

Value Body::map(RankedTensorType type, ValueRange operands, Formula formula) {
  return generic(type, operands, formula, Combine::None);
}

Value Body::sum(RankedTensorType type, ValueRange operands, Formula term) {
  return generic(type, operands, term, Combine::Sum);
}

Value Body::max(RankedTensorType type, ValueRange operands, Formula term) {
  return generic(type, operands, term, Combine::Max);
}

/// The loops of `names`, as the indexing map of a tensor.
static AffineMap mapOf(ArrayRef<StringAttr> names, ArrayRef<StringAttr> loops, MLIRContext *c) {
  SmallVector<AffineExpr> exprs;
  for (StringAttr name : names)
    exprs.push_back(getAffineDimExpr(llvm::find(loops, name) - loops.begin(), c));
  return AffineMap::get(loops.size(), 0, exprs, c);
}

Value Body::generic(RankedTensorType type, ValueRange operands, Formula formula, Combine combine) {
  MLIRContext *context = builder.getContext();
  SmallVector<StringAttr> loops(dimNames(type));
  for (Value v : operands)
    for (StringAttr name : dimNames(v))
      if (!llvm::is_contained(loops, name))
        loops.push_back(name);
  size_t parallel = dimNames(type).size();
  assert((combine != Combine::None || loops.size() == parallel) && "a map cannot reduce");
  // A reduction over nothing is a map: its one term.
  if (loops.size() == parallel)
    combine = Combine::None;

  SmallVector<AffineMap> maps;
  for (Value v : operands)
    maps.push_back(mapOf(dimNames(v), loops, context));
  maps.push_back(mapOf(dimNames(type), loops, context));
  SmallVector<utils::IteratorType> kinds(loops.size(), utils::IteratorType::parallel);
  std::fill(kinds.begin() + parallel, kinds.end(), utils::IteratorType::reduction);

  Value init = tensor::EmptyOp::create(builder, loc, type.getShape(), type.getElementType(),
                                       type.getEncoding());
  if (combine != Combine::None) {
    double neutral = combine == Combine::Sum ? 0.0 : -std::numeric_limits<double>::infinity();
    Value value = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(neutral));
    init = linalg::FillOp::create(builder, loc, value, init).getResult(0);
  }
  auto op = linalg::GenericOp::create(builder, loc, TypeRange(type), operands, init, maps, kinds,
                                      [&](OpBuilder &inner, Location at, ValueRange args) {
                                        BodyScalar term =
                                            formula(BodyPoint(inner, at, loops, args.drop_back()));
                                        BodyScalar old(inner, at, args.back());
                                        if (combine == Combine::Sum)
                                          term = old + term;
                                        else if (combine == Combine::Max)
                                          term = old.max(term);
                                        linalg::YieldOp::create(inner, at, term.value());
                                      });
  return op.getResult(0);
}

RankedTensorType cleave::nn::without(RankedTensorType type, RankedTensorType other) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> shape;
  for (auto [name, size] : llvm::zip(dimNames(type), type.getShape()))
    if (findDim(other, name) < 0) {
      names.push_back(name);
      shape.push_back(size);
    }
  return namedTensor(Float32Type::get(type.getContext()), shape, names);
}

BodyScalar cleave::nn::offsetAt(const BodyPoint &point, size_t at, size_t count) {
  BodyScalar sum = count > 0 ? point[at] : point.integer(0);
  for (size_t i = 1; i < count; ++i)
    sum = sum + point[at + i];
  return sum;
}

RankedTensorType cleave::nn::partialSums(RankedTensorType input, RankedTensorType result) {
  constexpr int64_t kSmall = 16384; // elements that one row sums in a few microseconds
  constexpr int64_t kEnoughRows = 64;
  if (result.getRank() != 0 || !input.hasStaticShape() || input.getNumElements() <= kSmall)
    return {};
  int64_t kept = 0, rows = 1;
  while (kept + 1 < input.getRank() && rows < kEnoughRows)
    rows *= input.getDimSize(kept++);
  if (rows == 1)
    return {};
  return namedTensor(result.getElementType(), input.getShape().take_front(kept),
                     dimNames(input).take_front(kept));
}

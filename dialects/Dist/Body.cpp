//===- Body.cpp - Bodies of what a rank does to its own block --------------===//
//
// `mask` and `keep_first` send nothing: they are elementwise in the block and in
// where this rank stands, which the program passes as a scalar.
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/Dist.h"
#include "dialects/Interfaces/BodyScalar.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::dist;

/// Elementwise over `operands[0]`, the others being scalars: `formula(builder, loc,
/// elements)`. A result may have dimensions of size 1 in front.
template <typename Formula>
static Value mapBlock(OpBuilder &b, Location loc, ValueRange operands, RankedTensorType type,
                      Formula formula) {
  int64_t rank = type.getRank(),
          extra = rank - cast<RankedTensorType>(operands[0].getType()).getRank();
  AffineMap all = b.getMultiDimIdentityMap(rank);
  SmallVector<AffineMap> maps(operands.size(), AffineMap::get(rank, 0, b.getContext()));
  maps[0] = all.dropResults(llvm::to_vector(llvm::seq<int64_t>(0, extra)));
  maps.push_back(all);
  SmallVector<utils::IteratorType> kinds(rank, utils::IteratorType::parallel);
  Value init =
      tensor::EmptyOp::create(b, loc, type.getShape(), type.getElementType(), type.getEncoding());
  auto op = linalg::GenericOp::create(b, loc, TypeRange(type), operands, init, maps, kinds,
                                      [&](OpBuilder &inner, Location at, ValueRange args) {
                                        SmallVector<BodyScalar> elements;
                                        for (Value arg : args.drop_back())
                                          elements.emplace_back(inner, at, arg);
                                        linalg::YieldOp::create(
                                            inner, at, formula(inner, at, elements).value());
                                      });
  return op.getResult(0);
}

FusionDims MaskOp::getFusionDims(unsigned) {
  FusionDims dims;
  dims.apart.push_back(getDim());
  return dims;
}

SmallVector<BodyInput> MaskOp::getBodyInputs() {
  return {BodyInput::coordinate(getMeshAttr(), getAxes())};
}

/// The masked dimension where others may have been merged: it starts after the
/// same number of elements.
static int64_t findDimAfter(ArrayRef<int64_t> shape, int64_t before, int64_t size) {
  int64_t count = 1;
  for (auto [d, n] : llvm::enumerate(shape)) {
    if (count == before && n == size)
      return d;
    count *= n;
  }
  llvm_unreachable("the masked dimension was merged with another one");
}

SmallVector<Value> MaskOp::buildBody(OpBuilder &b, ValueRange operands,
                                     ArrayRef<RankedTensorType> types) {
  ArrayRef<int64_t> shape = getType().getShape();
  int64_t before = HostTensor::count(shape.take_front(getDim()));
  int64_t dim = findDimAfter(types[0].getShape(), before, shape[getDim()]);
  double block = static_cast<double>(getBlockSize());
  // The block, where it begins if that is said, the rank's coordinate.
  auto masked = [&](OpBuilder &inner, Location at, ArrayRef<BodyScalar> x) {
    Value position = linalg::IndexOp::create(inner, at, dim);
    BodyScalar index(inner, at,
                     arith::IndexCastOp::create(inner, at, inner.getI32Type(), position));
    BodyScalar global = x.back() * block + index;
    if (getBegin())
      global = global + x[1];
    return (global < static_cast<double>(getSize())).select(x[0], getValue().convertToDouble());
  };
  return {mapBlock(b, getLoc(), operands, types[0], masked)};
}

SmallVector<BodyInput> KeepFirstOp::getBodyInputs() {
  return {BodyInput::coordinate(getMeshAttr(), getAxes())};
}

SmallVector<Value> KeepFirstOp::buildBody(OpBuilder &b, ValueRange operands,
                                          ArrayRef<RankedTensorType> types) {
  return {
      mapBlock(b, getLoc(), operands, types[0], [](OpBuilder &, Location, ArrayRef<BodyScalar> x) {
        return (x[1] == 0.0).select(x[0], 0.0);
      })};
}

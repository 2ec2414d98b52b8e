//===- KernelOps.cpp - what single ops of a kernel mean -------------------===//
//
// Index arithmetic through slices, reshapes and linalg maps, and the shapes of
// linalg bodies the planner has rules for.
//
//===----------------------------------------------------------------------===//

#include "lib/Target/Kernel/Kernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace cleave::target {

LinearExpr StridedView::address(ArrayRef<LinearExpr> index) const {
  LinearExpr result(offset);
  for (auto [i, stride] : llvm::zip_equal(index, strides))
    result = result + i * stride;
  return result;
}

bool isReduction(linalg::GenericOp op) { return op.getNumReductionLoops() != 0; }

static FailureOr<IndexList> sliceIndex(tensor::ExtractSliceOp slice, ArrayRef<LinearExpr> index) {
  if (ShapedType::isDynamicShape(slice.getStaticOffsets()) ||
      ShapedType::isDynamicShape(slice.getStaticStrides()))
    return slice.emitError("a slice in a kernel must have constant offsets and strides");
  llvm::SmallBitVector dropped = slice.getDroppedDims();
  IndexList result;
  size_t next = 0;
  for (auto [dim, offset, stride] :
       llvm::enumerate(slice.getStaticOffsets(), slice.getStaticStrides())) {
    LinearExpr local = dropped[dim] ? LinearExpr(0) : index[next++];
    result.push_back(local * stride + offset);
  }
  return result;
}

static IndexList expandIndex(tensor::ExpandShapeOp expand, ArrayRef<LinearExpr> index) {
  ArrayRef<int64_t> shape = expand.getResultType().getShape();
  IndexList result;
  for (ArrayRef<int64_t> group : expand.getReassociationIndices()) {
    LinearExpr linear;
    for (int64_t dim : group)
      linear = linear * shape[dim] + index[dim];
    result.push_back(linear);
  }
  return result;
}

static FailureOr<IndexList> collapseIndex(tensor::CollapseShapeOp collapse,
                                          ArrayRef<LinearExpr> index) {
  ArrayRef<int64_t> shape = collapse.getSrcType().getShape();
  IndexList result(shape.size(), LinearExpr(0));
  for (auto [i, group] : llvm::enumerate(collapse.getReassociationIndices())) {
    unsigned wide = 0;
    for (int64_t dim : group) {
      if (shape[dim] == 1)
        continue;
      result[dim] = index[i];
      ++wide;
    }
    if (wide > 1)
      return collapse.emitError("a kernel cannot look through this collapse of dimensions");
  }
  return result;
}

FailureOr<Element> resolveElement(Element element) {
  while (Operation *def = element.value.getDefiningOp()) {
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(def)) {
      FailureOr<IndexList> index = sliceIndex(slice, element.index);
      if (failed(index))
        return failure();
      element = {slice.getSource(), *index};
    } else if (auto expand = dyn_cast<tensor::ExpandShapeOp>(def)) {
      element = {expand.getSrc(), expandIndex(expand, element.index)};
    } else if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(def)) {
      FailureOr<IndexList> index = collapseIndex(collapse, element.index);
      if (failed(index))
        return failure();
      element = {collapse.getSrc(), *index};
    } else if (auto cast = dyn_cast<tensor::CastOp>(def)) {
      element.value = cast.getSource();
    } else {
      break;
    }
  }
  return element;
}

BlockArgument denseArgument(Value value) {
  while (Operation *def = value.getDefiningOp()) {
    if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>(def))
      return nullptr;
    value = def->getOperand(0);
  }
  return cast<BlockArgument>(value);
}

FailureOr<IndexList> loopsOfElement(linalg::GenericOp op, unsigned resultNo,
                                    ArrayRef<LinearExpr> index) {
  AffineMap map = op.getIndexingMapMatchingResult(op->getResult(resultNo));
  if (!map.isPermutation())
    return op.emitError("a kernel cannot compute single elements of this op: the map of its "
                        "result is no permutation");
  IndexList loops(map.getNumDims());
  for (auto [i, expr] : llvm::enumerate(map.getResults()))
    loops[cast<AffineDimExpr>(expr).getPosition()] = index[i];
  return loops;
}

FailureOr<IndexList> operandIndex(linalg::LinalgOp op, unsigned operandNo,
                                  ArrayRef<LinearExpr> loops) {
  AffineMap map = op.getMatchingIndexingMap(&op->getOpOperand(operandNo));
  IndexList index;
  for (AffineExpr expr : map.getResults()) {
    FailureOr<LinearExpr> value = applyAffine(expr, loops);
    if (failed(value))
      return op->emitError("the map of operand ")
             << operandNo << " is not linear: " << AffineMapAttr::get(map);
    index.push_back(*value);
  }
  return index;
}

Operation *matchCombiner(linalg::GenericOp op, unsigned resultNo) {
  Value acc = op.getRegionOutputArgs()[resultNo];
  auto yield = cast<linalg::YieldOp>(op.getBody()->getTerminator());
  Operation *combiner = yield.getOperand(resultNo).getDefiningOp();
  if (!combiner || !acc.hasOneUse() || *acc.getUsers().begin() != combiner)
    return nullptr;
  if (auto fma = dyn_cast<math::FmaOp>(combiner))
    return fma.getC() == acc ? combiner : nullptr;
  bool known = isa<arith::AddFOp, arith::MulFOp, arith::AddIOp, arith::MulIOp, arith::MaximumFOp,
                   arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp, arith::MaxSIOp,
                   arith::MinSIOp, arith::OrIOp, arith::AndIOp>(combiner);
  return known ? combiner : nullptr;
}

/// `value` without casts between integer types.
static Value stripIntegerCasts(Value value) {
  while (auto cast = value.getDefiningOp<arith::IndexCastOp>())
    value = cast.getIn();
  return value;
}

std::optional<Scatter> matchScatter(linalg::GenericOp op, unsigned outerLoop) {
  if (op->getNumResults() != 1)
    return std::nullopt;
  auto add = dyn_cast_or_null<arith::AddFOp>(matchCombiner(op, 0));
  if (!add)
    return std::nullopt;
  Value term = add.getLhs() == op.getRegionOutputArgs()[0] ? add.getRhs() : add.getLhs();
  auto select = term.getDefiningOp<arith::SelectOp>();
  if (!select || !matchPattern(select.getFalseValue(), m_AnyZeroFloat()))
    return std::nullopt;
  auto compare = select.getCondition().getDefiningOp<arith::CmpIOp>();
  if (!compare || compare.getPredicate() != arith::CmpIPredicate::eq)
    return std::nullopt;
  Value row = stripIntegerCasts(compare.getLhs()), id = stripIntegerCasts(compare.getRhs());
  if (!row.getDefiningOp<linalg::IndexOp>())
    std::swap(row, id);
  auto rowIndex = row.getDefiningOp<linalg::IndexOp>();
  auto idArg = dyn_cast<BlockArgument>(id);
  if (!rowIndex || rowIndex.getDim() != outerLoop || !idArg || idArg.getOwner() != op.getBody())
    return std::nullopt;
  // One id per token: its indices are the reduced loops, all of them.
  AffineMap map = op.getIndexingMapsArray()[idArg.getArgNumber()];
  SmallVector<utils::IteratorType> kinds = op.getIteratorTypesArray();
  bool reducedOnly = llvm::all_of(map.getResults(), [&](AffineExpr expr) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    return dim && kinds[dim.getPosition()] == utils::IteratorType::reduction;
  });
  if (!reducedOnly || !map.isProjectedPermutation() ||
      map.getNumResults() != op.getNumReductionLoops() || map.getNumResults() == 0)
    return std::nullopt;
  return Scatter{idArg.getArgNumber()};
}

unsigned countHeavyOps(linalg::GenericOp op) {
  unsigned count = 0;
  for (Operation &inner : *op.getBody())
    count += isa<math::ExpOp, math::Exp2Op, math::ExpM1Op, math::LogOp, math::Log2Op, math::Log1pOp,
                 math::TanhOp, math::ErfOp, math::PowFOp, math::SinOp, math::CosOp>(inner);
  return count;
}

} // namespace cleave::target

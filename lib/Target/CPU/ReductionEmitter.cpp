//===- ReductionEmitter.cpp - accumulators of a kernel's reductions -------===//
//
// A reduction whose reduced dimension runs over lanes keeps one accumulator per
// lane and section and folds them at the end, in a fixed tree. Any other
// accumulates in the order of its loops, beginning with the initial element.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;

namespace cleave::cpu {

/// The element that leaves others as they are when combined with them.
static TypedAttr neutralAttr(Operation *combiner, Type type) {
  OpBuilder b(combiner->getContext());
  const float infinity = std::numeric_limits<float>::infinity();
  if (isa<arith::MaximumFOp, arith::MaxNumFOp>(combiner))
    return b.getFloatAttr(type, -infinity);
  if (isa<arith::MinimumFOp, arith::MinNumFOp>(combiner))
    return b.getFloatAttr(type, infinity);
  if (isa<arith::MulFOp>(combiner))
    return b.getFloatAttr(type, 1.0);
  if (isa<arith::AddFOp, math::FmaOp>(combiner))
    return b.getFloatAttr(type, -0.0); // -0 + x is x for every x, 0 + -0 is not -0
  if (isa<arith::MulIOp>(combiner))
    return b.getIntegerAttr(type, 1);
  unsigned bits = type.getIntOrFloatBitWidth();
  if (isa<arith::MaxSIOp>(combiner))
    return b.getIntegerAttr(type, APInt::getSignedMinValue(bits));
  if (isa<arith::MinSIOp>(combiner))
    return b.getIntegerAttr(type, APInt::getSignedMaxValue(bits));
  if (isa<arith::AndIOp>(combiner))
    return b.getIntegerAttr(type, APInt::getAllOnes(bits));
  return b.getIntegerAttr(type, 0);
}

Value KernelEmitter::neutralElement(Operation *combiner, Type type, unsigned width) {
  TypedAttr neutral = neutralAttr(combiner, type);
  if (width == 1)
    return arith::ConstantOp::create(emitter->at(0), loc, neutral);
  auto vector = VectorType::get({int64_t(width)}, type);
  return arith::ConstantOp::create(emitter->at(0), loc, DenseElementsAttr::get(vector, neutral));
}

Value KernelEmitter::combine(Operation *combiner, Value a, Value b) {
  OpBuilder &at = emitter->at(emitter->innermost());
  if (isa<math::FmaOp>(combiner))
    return arith::AddFOp::create(at, loc, a, b);
  OperationState state(combiner->getLoc(), combiner->getName());
  state.addOperands({a, b});
  state.addTypes(a.getType());
  return at.create(state)->getResult(0);
}

Value KernelEmitter::combineLanes(Operation *combiner, Value lanes) {
  while (auto type = dyn_cast<VectorType>(lanes.getType())) {
    int64_t half = type.getDimSize(0) / 2;
    OpBuilder &b = emitter->at(emitter->innermost());
    Value low, high;
    if (half == 1) {
      low = vector::ExtractOp::create(b, loc, lanes, int64_t(0));
      high = vector::ExtractOp::create(b, loc, lanes, int64_t(1));
    } else {
      int64_t zero = 0, one = 1;
      low = vector::ExtractStridedSliceOp::create(b, loc, lanes, zero, half, one);
      high = vector::ExtractStridedSliceOp::create(b, loc, lanes, half, half, one);
    }
    lanes = combine(combiner, low, high);
  }
  return lanes;
}

/// The initial element of result `result`, at the index the loops are at.
FailureOr<Elem> KernelEmitter::initialElement(const Root &root, unsigned result) {
  IndexList index;
  for (const LinearExpr &expr : root.values[result].index)
    index.push_back(expr.substitute(nestDims));
  linalg::GenericOp op = root.reduction;
  return emitter->element(op.getDpsInitOperand(result)->get(), index);
}

LogicalResult KernelEmitter::emitReductions(unsigned pos) {
  bool split = nest->laneDim && *nest->laneDim >= pos;
  Accumulators accumulators(split ? sections.size() : 1);
  for (Root *root : nest->roots) {
    for (unsigned i = 0; root->reduction && i < root->values.size(); ++i) {
      Elem acc;
      acc.type = getElementTypeOrSelf(root->values[i].value.getType());
      acc.scope = emitter->innermost();
      if (split) {
        for (auto [list, section] : llvm::zip_equal(accumulators, sections)) {
          acc.lanes = section.width != 1;
          acc.value = neutralElement(matchCombiner(root->reduction, i), acc.type, section.width);
          list.push_back(acc);
        }
        continue;
      }
      FailureOr<Elem> init = initialElement(*root, i);
      if (failed(init))
        return failure();
      acc.lanes = emitter->width != 1;
      acc.value = emitter->materialize(*init, acc.lanes);
      accumulators[0].push_back(acc);
    }
  }
  if (failed(emitReductionLoops(pos, accumulators, std::nullopt)))
    return failure();
  return finishReductions(accumulators, split);
}

LogicalResult KernelEmitter::emitReductionLoops(unsigned pos, Accumulators &accumulators,
                                                std::optional<unsigned> section) {
  if (pos == nest->extents.size())
    return emitLeaf(accumulators[section.value_or(0)]);
  auto carry = [](SmallVector<Elem, 4> &list, SmallVector<Elem *> &carried) {
    for (Elem &elem : list)
      carried.push_back(&elem);
  };
  if (nest->laneDim == pos) {
    for (auto [i, part] : llvm::enumerate(sections)) {
      SmallVector<Elem *> carried;
      carry(accumulators[i], carried);
      if (failed(forRange(pos, part, /*lanes=*/true, carried,
                          [&] { return emitReductionLoops(pos + 1, accumulators, i); })))
        return failure();
    }
    return success();
  }
  SmallVector<Elem *> carried;
  for (auto [i, list] : llvm::enumerate(accumulators))
    if (!section || *section == i)
      carry(list, carried);
  return forRange(pos, {1, 0, nest->extents[pos]}, /*lanes=*/false, carried,
                  [&] { return emitReductionLoops(pos + 1, accumulators, section); });
}

/// Folds lanes and sections to one element per result, and stores it.
LogicalResult KernelEmitter::finishReductions(Accumulators &accumulators, bool split) {
  size_t next = 0;
  emitter->setAnchor(emitter->innermost(), nullptr);
  for (Root *root : nest->roots) {
    if (!root->reduction)
      continue;
    SmallVector<Elem> results;
    for (auto [i, slot] : llvm::enumerate(root->values)) {
      Elem result = accumulators[0][next];
      if (split) {
        Operation *combiner = matchCombiner(root->reduction, i);
        FailureOr<Elem> init = initialElement(*root, i);
        if (failed(init))
          return failure();
        Value total = emitter->materialize(*init, false);
        for (SmallVector<Elem, 4> &list : accumulators)
          total = combine(combiner, total, combineLanes(combiner, list[next].value));
        result.value = total;
        result.lanes = false;
      }
      result.scope = emitter->innermost();
      ++next;
      results.push_back(result);
      IndexList index;
      for (const LinearExpr &expr : slot.index)
        index.push_back(expr.substitute(nestDims));
      if ((slot.dest || slot.buffer) && failed(emitter->store(slot, index, result)))
        return failure();
    }
    if (root->firstReduction == 0)
      emitter->complete(*root, results);
  }
  return success();
}

} // namespace cleave::cpu

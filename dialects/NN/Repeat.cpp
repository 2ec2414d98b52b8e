//===- Repeat.cpp - A block that runs a number of times --------------------===//

#include "dialects/NN/NN.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

int64_t RepeatOp::getSliceDim(Type whole) { return getAlong() ? findDim(whole, *getAlong()) : -1; }

LogicalResult RepeatOp::verify() {
  if (getIterations() < 1)
    return emitOpError() << "runs " << getIterations() << " times; it needs to run at least once";
  if (getSliceBlocks() < 1)
    return emitOpError("needs at least one block of slices");
  if (getLayers() && getLayers()->size() != 2)
    return emitOpError("needs layers = [first, step]");
  if (getCarried().getTypes() != getLast().getTypes())
    return emitOpError("returns its carried values with types other than it takes them");
  return success();
}

/// `slice` is what one iteration sees or makes of `whole`.
static LogicalResult verifySlice(RepeatOp op, Type whole, Type slice, StringRef what) {
  auto of = cast<RankedTensorType>(whole);
  int64_t dim = op.getSliceDim(of);
  if (dim < 0)
    return op.emitOpError() << what << ' ' << of << ", which lacks the dimension 'along'";
  SmallVector<int64_t> shape(of.getShape());
  SmallVector<StringAttr> names(dimNames(of));
  int64_t parts = op.getIterations() * op.getSliceBlocks();
  bool removed = findDim(slice, *op.getAlong()) < 0;
  if (!ShapedType::isDynamic(shape[dim]) &&
      (removed ? shape[dim] != op.getIterations() : shape[dim] % parts != 0))
    return op.emitOpError() << what << ' ' << of << ", whose dimension '" << *op.getAlong()
                            << "' does not give " << op.getIterations() << " equal slices";
  if (removed) {
    shape.erase(shape.begin() + dim);
    names.erase(names.begin() + dim);
  } else if (!ShapedType::isDynamic(shape[dim])) {
    shape[dim] /= op.getIterations();
  }
  auto expected = namedTensor(of.getElementType(), shape, names);
  if (slice == expected)
    return success();
  return op.emitOpError() << what << ' ' << of << " as " << slice << "; a slice is a " << expected;
}

LogicalResult RepeatOp::verifyRegions() {
  Block &block = getBody().front();
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  unsigned carried = getNumCarried();
  if (!yield)
    return emitOpError("needs a block that ends in nn.yield");
  if (block.getNumArguments() != getNumOperands() || yield.getNumOperands() != getNumResults())
    return emitOpError("needs a block that takes what it carries and scans, and yields what it "
                       "carries and stacks");
  TypeRange arguments(block.getArgumentTypes()), yielded(yield.getValues());
  if (arguments.take_front(carried) != TypeRange(getCarried()) ||
      yielded.take_front(carried) != TypeRange(getCarried()))
    return emitOpError("carries values whose types change");
  for (auto [whole, slice] : llvm::zip(getScanned().getTypes(), arguments.drop_front(carried)))
    if (failed(verifySlice(*this, whole, slice, "scans")))
      return failure();
  for (auto [whole, slice] : llvm::zip(getStacked().getTypes(), yielded.drop_front(carried)))
    if (failed(verifySlice(*this, whole, slice, "stacks")))
      return failure();
  return success();
}

//===- Repeat.cpp - A block that runs a number of times --------------------===//

#include "dialects/NN/NN.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

SmallVector<Slicing> RepeatOp::getSlicing(Type whole) {
  SmallVector<Slicing> slicing;
  if (auto names = getAlong())
    for (auto [i, name] : llvm::enumerate(names->getAsValueRange<StringAttr>()))
      slicing.push_back({findDim(whole, name), getPieces() ? (*getPieces())[i] : getIterations(),
                         getBlocks() ? (*getBlocks())[i] : 1});
  return slicing;
}

void RepeatOp::divideBlocks(ArrayRef<int64_t> ways) {
  if (!getBlocks())
    return;
  SmallVector<int64_t> blocks(*getBlocks());
  for (auto [own, by] : llvm::zip(blocks, ways))
    own /= by;
  bool one = llvm::all_of(blocks, [](int64_t n) { return n == 1; });
  setBlocks(one ? std::optional<ArrayRef<int64_t>>() : ArrayRef<int64_t>(blocks));
}

/// `numbers`, where given, has one of at least 1 for each sliced dimension.
static LogicalResult verifyNumbers(RepeatOp op, std::optional<ArrayRef<int64_t>> numbers,
                                   StringRef name) {
  size_t dims = op.getAlong() ? op.getAlong()->size() : 0;
  if (numbers &&
      (numbers->size() != dims || llvm::any_of(*numbers, [](int64_t n) { return n < 1; })))
    return op.emitOpError() << "needs " << name << " of one number above 0 for each dimension in "
                            << "'along'";
  return success();
}

LogicalResult RepeatOp::verify() {
  if (getIterations() < 1)
    return emitOpError() << "runs " << getIterations() << " times; it needs to run at least once";
  if (failed(verifyNumbers(*this, getPieces(), "pieces")) ||
      failed(verifyNumbers(*this, getBlocks(), "blocks")))
    return failure();
  if (getAlong() && getAlong()->size() != 1 && !getPieces())
    return emitOpError("slices several dimensions and does not say in how many pieces each");
  int64_t all = 1;
  for (int64_t pieces : getPieces().value_or(ArrayRef<int64_t>()))
    if (llvm::MulOverflow(all, pieces, all))
      return emitOpError("has more pieces than can be counted");
  if (getPieces() && all != getIterations())
    return emitOpError() << "runs " << getIterations() << " times for " << all << " pieces";
  if (getLayers() && getLayers()->size() != 2)
    return emitOpError("needs layers = [first, step]");
  if (getCarried().getTypes() != getLast().getTypes())
    return emitOpError("returns its carried values with types other than it takes them");
  return success();
}

/// `slice` is what one iteration sees or makes of `whole`.
static LogicalResult verifySlice(RepeatOp op, Type whole, Type slice, StringRef what) {
  auto of = cast<RankedTensorType>(whole);
  SmallVector<int64_t> shape;
  SmallVector<StringAttr> names;
  auto slicing = op.getSlicing(of);
  if (slicing.empty() || llvm::any_of(slicing, [](Slicing s) { return s.dim < 0; }))
    return op.emitOpError() << what << ' ' << of << ", which lacks a dimension of 'along'";
  for (auto [d, name] : llvm::enumerate(dimNames(of))) {
    int64_t size = of.getDimSize(d);
    auto sliced = llvm::find_if(slicing, [&](Slicing s) { return s.dim == int64_t(d); });
    if (sliced != slicing.end() && !ShapedType::isDynamic(size)) {
      bool removed = findDim(slice, name.getValue()) < 0;
      if (removed ? size != sliced->pieces : size % (sliced->pieces * sliced->blocks) != 0)
        return op.emitOpError() << what << ' ' << of << ", whose dimension " << name
                                << " does not give " << sliced->pieces << " equal pieces";
      size /= sliced->pieces;
    }
    if (sliced != slicing.end() && findDim(slice, name.getValue()) < 0)
      continue;
    shape.push_back(size);
    names.push_back(name);
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

//===- Join.cpp - Parts of different sizes along the last dimension --------===//

#include "dialects/NN/Body.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

/// `parts` differ from `whole` in their last dimensions alone, whose sizes add up to
/// that of the whole's.
static LogicalResult verifyParts(Operation *op, RankedTensorType whole, TypeRange parts) {
  if (whole.getRank() < 2 || parts.empty())
    return op->emitOpError("needs parts along the last of at least two dimensions");
  int64_t sum = 0;
  for (Type type : parts) {
    auto part = cast<RankedTensorType>(type);
    if (part.getRank() != whole.getRank() || part.getElementType() != whole.getElementType() ||
        dimNames(part).drop_back() != dimNames(whole).drop_back() ||
        findDim(whole, dimNames(part).back()) >= 0)
      return op->emitOpError() << "has the part " << part << " of " << whole
                               << ": all but the last dimension are the same, and that has a "
                                  "name of its own";
    sum += part.getShape().back();
  }
  if (sum != whole.getShape().back())
    return op->emitOpError() << "has parts of " << sum << " elements along a dimension of "
                             << whole.getShape().back();
  return verifySizesByName(op);
}

/// The last dimensions whole, all others by name.
static ShardingRule partsRule(Operation *op) {
  ShardingRule rule = ruleByNames(op);
  for (const auto &dims : llvm::concat<SmallVector<int>>(rule.operands, rule.results)) {
    Factor &last = rule.factors[dims.back()];
    last = {last.name, last.size, false, std::nullopt, std::nullopt};
  }
  return rule;
}

/// Copies rows of `from`, `width` apart, to those of `to`, from an element on in each.
static void copyRows(const HostTensor &from, int64_t fromFirst, HostTensor &to, int64_t toFirst) {
  int64_t fromWidth = from.shape.back(), toWidth = to.shape.back();
  int64_t width = std::min(fromWidth, toWidth), rows = width ? from.size() / fromWidth : 0;
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(from.data.begin() + r * fromWidth + fromFirst, width,
                to.data.begin() + r * toWidth + toFirst);
}

//===----------------------------------------------------------------------===//
// split
//===----------------------------------------------------------------------===//

LogicalResult SplitOp::verify() {
  return verifyParts(*this, getInput().getType(), getResultTypes());
}

ShardingRule SplitOp::getShardingRule() {
  ShardingRule rule = partsRule(*this);
  rule.linear = {{0}};
  return rule;
}

SmallVector<Value> SplitOp::buildGradient(OpBuilder &b, ValueRange gradients, ArrayRef<bool>) {
  SmallVector<Value> parts;
  for (auto [g, type] : llvm::zip(gradients, getResultTypes()))
    parts.push_back(g ? g : FillOp::create(b, getLoc(), type, b.getF64FloatAttr(0.0)));
  return {ConcatOp::create(b, getLoc(), getInput().getType(), parts)};
}

LogicalResult SplitOp::interpret(ArrayRef<const HostTensor *> in, MutableArrayRef<HostTensor> out) {
  int64_t first = 0;
  for (HostTensor &part : out) {
    copyRows(*in[0], first, part, 0);
    first += part.shape.back();
  }
  return success();
}

SmallVector<Value> SplitOp::buildBody(OpBuilder &b, ValueRange operands,
                                      ArrayRef<RankedTensorType> types) {
  auto input = tensorType(operands[0]);
  auto plain = [&](RankedTensorType type) {
    return RankedTensorType::get(type.getShape(), type.getElementType());
  };
  Value x = tensor::CastOp::create(b, getLoc(), plain(input), operands[0]);
  SmallVector<OpFoldResult> offsets(input.getRank(), b.getIndexAttr(0)), sizes,
      strides(input.getRank(), b.getIndexAttr(1));
  for (int64_t size : input.getShape())
    sizes.push_back(b.getIndexAttr(size));
  SmallVector<Value> out;
  int64_t first = 0;
  for (auto [type, part] : llvm::zip(types, getResultTypes())) {
    int64_t size = cast<RankedTensorType>(part).getShape().back();
    offsets.back() = b.getIndexAttr(first);
    sizes.back() = b.getIndexAttr(size);
    first += size;
    if (!type) {
      out.push_back(Value());
      continue;
    }
    Value slice = tensor::ExtractSliceOp::create(b, getLoc(), x, offsets, sizes, strides);
    // The part's own last name, the input's others.
    SmallVector<StringAttr> names(dimNames(input));
    names.back() = dimNames(type).back();
    auto named = namedTensor(input.getElementType(), tensorType(slice).getShape(), names);
    slice = tensor::CastOp::create(b, getLoc(), named, slice);
    out.push_back(Body(b, getLoc()).map(type, slice, [](const BodyPoint &p) { return p[0]; }));
  }
  return out;
}

//===----------------------------------------------------------------------===//
// concat
//===----------------------------------------------------------------------===//

LogicalResult ConcatOp::verify() { return verifyParts(*this, getType(), getOperandTypes()); }

ShardingRule ConcatOp::getShardingRule() {
  ShardingRule rule = partsRule(*this);
  SmallVector<int> all;
  for (size_t i = 0; i < getParts().size(); ++i)
    all.push_back(static_cast<int>(i));
  rule.linear = {all};
  return rule;
}

SmallVector<Value> ConcatOp::buildGradient(OpBuilder &b, ValueRange gradients, ArrayRef<bool>) {
  auto split = SplitOp::create(b, getLoc(), TypeRange(getOperandTypes()), gradients[0]);
  return SmallVector<Value>(split.getResults());
}

LogicalResult ConcatOp::interpret(ArrayRef<const HostTensor *> in,
                                  MutableArrayRef<HostTensor> out) {
  int64_t first = 0;
  for (const HostTensor *part : in) {
    copyRows(*part, 0, out[0], first);
    first += part->shape.back();
  }
  return success();
}

/// Slices of whole rows, put together: a form that no other operator can read.
FusionDims ConcatOp::getFusionDims(unsigned) {
  return {{}, {getType().getRank() - 1}, /*alone=*/true};
}

SmallVector<Value> ConcatOp::buildBody(OpBuilder &b, ValueRange operands,
                                       ArrayRef<RankedTensorType> types) {
  RankedTensorType type = types[0];
  auto plain = RankedTensorType::get(type.getShape(), type.getElementType());
  Value whole = tensor::EmptyOp::create(b, getLoc(), type.getShape(), type.getElementType());
  int64_t first = 0;
  for (Value part : operands) {
    SmallVector<int64_t> shape(tensorType(part).getShape());
    SmallVector<OpFoldResult> offsets(shape.size(), b.getIndexAttr(0)), sizes,
        strides(shape.size(), b.getIndexAttr(1));
    for (int64_t size : shape)
      sizes.push_back(b.getIndexAttr(size));
    offsets.back() = b.getIndexAttr(first);
    first += shape.back();
    Value copy =
        Body(b, getLoc()).map(tensorType(part), part, [](const BodyPoint &p) { return p[0]; });
    copy = tensor::CastOp::create(b, getLoc(), RankedTensorType::get(shape, type.getElementType()),
                                  copy);
    whole = tensor::InsertSliceOp::create(b, getLoc(), copy, whole, offsets, sizes, strides);
  }
  assert(whole.getType() == plain && "a concat has rows");
  return {tensor::CastOp::create(b, getLoc(), type, whole)};
}

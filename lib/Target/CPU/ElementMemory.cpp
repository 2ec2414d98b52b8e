//===- ElementMemory.cpp - addresses, loads and stores of elements --------===//
//
// An address is a base pointer plus a linear expression. It is built scope by
// scope, outermost first, so that each loop adds only what changes in it.
//
//===----------------------------------------------------------------------===//

#include "ElementEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace cleave::cpu {

static constexpr unsigned kCacheLine = 64; ///< bytes

/// The size of an element, which is all the alignment operands promise.
static unsigned bytesOf(Type element) { return element.getIntOrFloatBitWidth() / 8; }

Value ElementEmitter::scalarIndex(const LinearExpr &expr) {
  Location loc = kernel.func->getLoc();
  unsigned scope = scopeOf(expr);
  Value sum;
  for (auto [id, coefficient] : expr.terms()) {
    Value term = dims[id].value;
    if (coefficient != 1) {
      Value factor = arith::ConstantIndexOp::create(at(0), loc, coefficient);
      term = arith::MulIOp::create(at(dims[id].scope), loc, term, factor);
    }
    sum = sum ? arith::AddIOp::create(at(scope), loc, sum, term).getResult() : term;
  }
  if (!sum)
    return arith::ConstantIndexOp::create(at(0), loc, expr.constant());
  if (expr.constant() != 0) {
    Value constant = arith::ConstantIndexOp::create(at(0), loc, expr.constant());
    sum = arith::AddIOp::create(at(scope), loc, sum, constant);
  }
  return sum;
}

/// The address of lane 0. `scope` is raised to where the address exists.
Value ElementEmitter::pointer(Value base, Type element, const LinearExpr &address,
                              unsigned &scope) {
  Location loc = kernel.func->getLoc();
  Type ptr = LLVM::LLVMPointerType::get(builder.getContext());
  Value current = base;
  unsigned deepest = scopeOf(address);
  scope = std::max(scope, deepest);
  for (unsigned s = 0; s <= deepest; ++s) {
    LinearExpr part(s == deepest ? address.constant() : 0);
    for (auto [id, coefficient] : address.terms())
      if (dims[id].scope == s)
        part = part + LinearExpr::dim(id, coefficient);
    if (part == LinearExpr(0))
      continue;
    Value &known = scopes[s].addresses[{current.getAsOpaquePointer(), part}];
    if (!known) {
      LinearExpr variable = part + LinearExpr(-part.constant());
      Value result = current;
      if (!variable.isConstant()) {
        Value index =
            arith::IndexCastOp::create(at(s), loc, builder.getI64Type(), scalarIndex(variable));
        result = LLVM::GEPOp::create(at(s), loc, ptr, element, result, ValueRange{index});
      }
      if (part.constant() != 0) {
        Value index = arith::ConstantIntOp::create(at(0), loc, part.constant(), 64);
        result = LLVM::GEPOp::create(at(s), loc, ptr, element, result, ValueRange{index});
      }
      known = result;
    }
    current = known;
  }
  return current;
}

Value ElementEmitter::lanePointers(Value pointer, Type element, int64_t stride, Value offsets,
                                   unsigned scope) {
  Location loc = kernel.func->getLoc();
  auto type = VectorType::get({int64_t(width)}, builder.getI64Type());
  if (stride != 0 || !offsets) {
    SmallVector<int64_t> steps;
    for (unsigned lane = 0; lane < width; ++lane)
      steps.push_back(stride * lane);
    Value iota =
        arith::ConstantOp::create(at(0), loc, type, DenseIntElementsAttr::get(type, steps));
    offsets = offsets ? arith::AddIOp::create(at(scope), loc, offsets, iota).getResult() : iota;
  }
  auto pointers =
      VectorType::get({int64_t(width)}, LLVM::LLVMPointerType::get(builder.getContext()));
  return LLVM::GEPOp::create(at(scope), loc, pointers, element, pointer, ValueRange{offsets});
}

Elem ElementEmitter::load(Value base, Type element, const LinearExpr &address, unsigned minScope,
                          const void *identity, Value laneOffsets, unsigned laneOffsetsScope) {
  Location loc = kernel.func->getLoc();
  unsigned scope = std::max(minScope, laneOffsetsScope);
  int64_t stride = laneStride(address);
  Value from = pointer(base, element, address, scope);
  auto &known = scopes[scope].elements;
  std::pair<const void *, IndexList> key{identity, {address}};
  if (!laneOffsets)
    if (auto it = known.find(key); it != known.end())
      return it->second[0];
  Elem result;
  result.type = element;
  result.scope = scope;
  result.lanes = stride != 0 || laneOffsets;
  auto vector = VectorType::get({int64_t(width)}, element);
  if (!result.lanes) {
    result.value = LLVM::LoadOp::create(at(scope), loc, element, from, bytesOf(element));
  } else if (stride == 1 && !laneOffsets) {
    result.value = LLVM::LoadOp::create(at(scope), loc, vector, from, bytesOf(element));
  } else {
    Value addresses = lanePointers(from, element, stride, laneOffsets, scope);
    auto maskType = VectorType::get({int64_t(width)}, builder.getI1Type());
    Value mask =
        arith::ConstantOp::create(at(0), loc, maskType, DenseElementsAttr::get(maskType, true));
    result.value = LLVM::masked_gather::create(at(scope), loc, vector, addresses, mask,
                                               ValueRange{}, bytesOf(element));
  }
  if (!laneOffsets)
    known[key].push_back(result);
  return result;
}

/// An element at an index that data decides: uniform parts become loop variables
/// like others, parts that differ by lane a vector of offsets.
FailureOr<Elem> ElementEmitter::extract(Value tensor, ArrayRef<Elem> indices, Location loc) {
  BlockArgument arg = denseArgument(tensor);
  if (!arg || arg.getOwner() != &kernel.func->getRegion(0).front())
    return emitError(loc, "a kernel may only gather from its arguments");
  auto type = cast<RankedTensorType>(tensor.getType());
  IndexList linear;
  Value offsets;
  unsigned offsetsScope = 0;
  int64_t stride = 1;
  for (int64_t extent : type.getShape())
    stride *= extent;
  for (auto [elem, extent] : llvm::zip_equal(indices, type.getShape())) {
    stride /= extent;
    if (elem.linear) {
      linear.push_back(*elem.linear);
      continue;
    }
    Value value = materialize(elem, elem.lanes);
    if (!elem.lanes) {
      auto [it, added] = dimOfValue.try_emplace(value, 0);
      if (added)
        it->second = addDim(value, elem.scope, /*lanes=*/false);
      linear.push_back(LinearExpr::dim(it->second));
      continue;
    }
    linear.push_back(LinearExpr(0));
    auto wide = VectorType::get({int64_t(width)}, builder.getI64Type());
    Value offset = arith::IndexCastOp::create(at(elem.scope), loc, wide, value);
    Value factor =
        arith::ConstantOp::create(at(0), loc, wide, DenseElementsAttr::get(wide, stride));
    offset = arith::MulIOp::create(at(elem.scope), loc, offset, factor);
    offsetsScope = std::max(offsetsScope, elem.scope);
    offsets = offsets ? arith::AddIOp::create(at(offsetsScope), loc, offsets, offset).getResult()
                      : offset;
  }
  return load(pointers[arg.getArgNumber()], type.getElementType(),
              denseAddress(type.getShape(), linear), 0, arg.getAsOpaquePointer(), offsets,
              offsetsScope);
}

FailureOr<Elem> ElementEmitter::loadStored(const RootValue &slot, ArrayRef<LinearExpr> index,
                                           bool overRows) {
  Type element = getElementTypeOrSelf(slot.value.getType());
  if (slot.dest)
    return load(pointers[slot.dest->arg], element, slot.dest->address(index), rowScope, &slot);
  if (!slot.buffer)
    return emitError(slot.value.getLoc(), "has no place in the kernel");
  LinearExpr address;
  for (auto [i, stride] : llvm::zip_equal(index, slot.bufferStrides))
    address = address + i * stride;
  return load(buffers[*slot.buffer], element, address, overRows ? rowScope : 0, &slot);
}

void ElementEmitter::prefetch(unsigned arg, const LinearExpr &address) {
  Location loc = kernel.func->getLoc();
  Type element = getElementTypeOrSelf(kernel.func->getRegion(0).getArgument(arg).getType());
  for (unsigned lane = 0; lane < width; lane += kCacheLine / bytesOf(element)) {
    unsigned scope = innermost();
    Value from = pointer(pointers[arg], element, address + LinearExpr(lane), scope);
    LLVM::Prefetch::create(at(scope), loc, from, /*rw=*/0u, /*hint=*/3u, /*cache=*/1u);
  }
}

LogicalResult ElementEmitter::store(const RootValue &slot, ArrayRef<LinearExpr> index,
                                    const Elem &elem) {
  Location loc = slot.value.getLoc();
  Type element = getElementTypeOrSelf(slot.value.getType());
  LinearExpr address;
  Value base;
  if (slot.dest) {
    address = slot.dest->address(index);
    base = pointers[slot.dest->arg];
  } else {
    for (auto [i, stride] : llvm::zip_equal(index, slot.bufferStrides))
      address = address + i * stride;
    base = buffers[*slot.buffer];
  }
  int64_t stride = laneStride(address);
  if (elem.lanes && stride == 0)
    return emitError(loc, "its lanes would be stored on top of each other");
  Value value = materialize(elem, stride != 0);
  unsigned scope = innermost();
  Value to = pointer(base, element, address, scope);
  if (stride == 0 || stride == 1) {
    LLVM::StoreOp::create(at(scope), loc, value, to, bytesOf(element));
    return success();
  }
  Value addresses = lanePointers(to, element, stride, nullptr, scope);
  auto maskType = VectorType::get({int64_t(width)}, builder.getI1Type());
  Value mask =
      arith::ConstantOp::create(at(0), loc, maskType, DenseElementsAttr::get(maskType, true));
  LLVM::masked_scatter::create(at(scope), loc, value, addresses, mask, bytesOf(element));
  return success();
}

} // namespace cleave::cpu

//===- ElementEmitter.cpp - code for elements of tensors ------------------===//
//
// Values and bodies; addresses, loads and stores are in ElementMemory.cpp.
//
//===----------------------------------------------------------------------===//

#include "ElementEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;

namespace cleave::cpu {

ElementEmitter::ElementEmitter(const Kernel &kernel, OpBuilder &builder, Block *entry,
                               ArrayRef<Value> pointers)
    : kernel(kernel), builder(builder), pointers(pointers.begin(), pointers.end()) {
  pushScope(entry);
}

unsigned ElementEmitter::pushScope(Block *block) {
  scopes.emplace_back().block = block;
  return scopes.size() - 1;
}

OpBuilder &ElementEmitter::at(unsigned scope) {
  if (Operation *anchor = scopes[scope].anchor)
    builder.setInsertionPoint(anchor);
  else
    builder.setInsertionPointToEnd(scopes[scope].block);
  return builder;
}

unsigned ElementEmitter::addDim(Value value, unsigned scope, bool lanes) {
  dims.push_back({value, scope, lanes});
  return dims.size() - 1;
}

unsigned ElementEmitter::scopeOf(const LinearExpr &expr) const {
  unsigned scope = 0;
  for (auto [id, coefficient] : expr.terms())
    scope = std::max(scope, dims[id].scope);
  return scope;
}

unsigned ElementEmitter::scopeOf(ArrayRef<LinearExpr> index) const {
  unsigned scope = 0;
  for (const LinearExpr &expr : index)
    scope = std::max(scope, scopeOf(expr));
  return scope;
}

int64_t ElementEmitter::laneStride(const LinearExpr &expr) const {
  int64_t stride = 0;
  for (auto [id, coefficient] : expr.terms())
    if (dims[id].lanes)
      stride += coefficient;
  return stride;
}

void ElementEmitter::complete(const Root &root, ArrayRef<Elem> scalars) {
  for (auto [i, slot] : llvm::enumerate(root.values)) {
    auto [home, position] = kernel.rootOf.lookup(slot.value);
    if (home == &root)
      completed[slot.value] = scalars.empty() ? Elem() : scalars[i];
  }
}

void ElementEmitter::forgetScalars(const Kernel &kernel) {
  for (const Root &root : kernel.roots)
    for (const RootValue &slot : root.values)
      if (auto it = completed.find(slot.value);
          root.overRows && it != completed.end() && it->second.value)
        completed.erase(it);
}

FailureOr<Elem> ElementEmitter::element(Value source, IndexList sourceIndex) {
  FailureOr<Element> resolved = resolveElement({source, std::move(sourceIndex)});
  if (failed(resolved))
    return failure();
  auto &[value, index] = *resolved;
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    auto type = cast<RankedTensorType>(arg.getType());
    return load(pointers[arg.getArgNumber()], type.getElementType(),
                denseAddress(type.getShape(), index), 0, arg.getAsOpaquePointer());
  }
  auto stored = completed.find(value);
  if (stored != completed.end()) {
    if (stored->second.value)
      return stored->second;
    auto [root, position] = kernel.rootOf.lookup(value);
    // Only this row's elements are there; others are computed again.
    const RootValue &slot = root->values[position];
    bool ownRow = !root->overRows || root->reduction || index[0].isDim(0);
    if (ownRow)
      return loadStored(slot, index, root->overRows);
  }
  Operation *def = value.getDefiningOp();
  if (auto fill = dyn_cast<linalg::FillOp>(def))
    return captured(fill.value());
  if (auto constant = dyn_cast<arith::ConstantOp>(def)) {
    auto splat = cast<SplatElementsAttr>(constant.getValue());
    Type type = splat.getElementType();
    Value scalar = arith::ConstantOp::create(at(0), constant.getLoc(), type,
                                             cast<TypedAttr>(splat.getSplatValue<Attribute>()));
    return Elem{scalar, type, false, 0, std::nullopt, nullptr};
  }
  auto op = dyn_cast<linalg::GenericOp>(def);
  if (!op || isReduction(op))
    return def->emitError("its value is used before it is complete");

  unsigned resultNo = cast<OpResult>(value).getResultNumber();
  FailureOr<IndexList> loops = loopsOfElement(op, resultNo, index);
  if (failed(loops))
    return failure();
  auto &known = scopes[scopeOf(*loops)].elements;
  auto it = known.find({op.getOperation(), *loops});
  if (it == known.end()) {
    FailureOr<SmallVector<Elem, 2>> results = body(op, *loops, {});
    if (failed(results))
      return failure();
    it = known.try_emplace({op.getOperation(), *loops}, std::move(*results)).first;
  }
  return it->second[resultNo];
}

FailureOr<SmallVector<Elem, 2>> ElementEmitter::body(linalg::GenericOp op,
                                                     ArrayRef<LinearExpr> loops,
                                                     ArrayRef<Elem> accumulators) {
  llvm::DenseMap<Value, Elem> values;
  for (auto [i, acc] : llvm::enumerate(accumulators))
    values[op.getRegionOutputArgs()[i]] = acc;
  auto lookup = [&](Value value) -> FailureOr<Elem> {
    if (auto it = values.find(value); it != values.end())
      return it->second;
    auto arg = dyn_cast<BlockArgument>(value);
    if (!arg || arg.getOwner() != op.getBody())
      return captured(value);
    Value operand = op->getOperand(arg.getArgNumber());
    FailureOr<Elem> elem = failure();
    if (isa<RankedTensorType>(operand.getType())) {
      FailureOr<IndexList> index = operandIndex(op, arg.getArgNumber(), loops);
      if (succeeded(index))
        elem = element(operand, *index);
    } else {
      elem = captured(operand);
    }
    if (succeeded(elem))
      values[value] = *elem;
    return elem;
  };
  for (Operation &inner : op.getBody()->without_terminator()) {
    SmallVector<Elem> operands;
    for (Value operand : inner.getOperands()) {
      if (isa<RankedTensorType>(operand.getType())) {
        operands.emplace_back(); // the tensor of an extract
        continue;
      }
      FailureOr<Elem> elem = lookup(operand);
      if (failed(elem))
        return failure();
      operands.push_back(*elem);
    }
    FailureOr<Elems> results = bodyOp(inner, loops, operands);
    if (failed(results))
      return failure();
    for (auto [result, elem] : llvm::zip_equal(inner.getResults(), *results))
      values[result] = elem;
  }
  SmallVector<Elem, 2> results;
  for (Value yielded : op.getBody()->getTerminator()->getOperands()) {
    FailureOr<Elem> elem = lookup(yielded);
    if (failed(elem))
      return failure();
    results.push_back(*elem);
  }
  return results;
}

FailureOr<ElementEmitter::Elems> ElementEmitter::bodyOp(Operation &op, ArrayRef<LinearExpr> loops,
                                                        ArrayRef<Elem> operands) {
  if (auto index = dyn_cast<linalg::IndexOp>(op)) {
    const LinearExpr &expr = loops[index.getDim()];
    Elem elem;
    elem.type = index.getType();
    elem.linear = expr;
    elem.scope = scopeOf(expr);
    elem.lanes = laneStride(expr) != 0;
    return Elems{elem};
  }
  if (auto cast = dyn_cast<arith::IndexCastOp>(op); cast && operands[0].linear) {
    Elem elem = operands[0];
    elem.type = cast.getType();
    elem.value = nullptr;
    return Elems{elem};
  }
  FailureOr<Elem> single = failure();
  if (auto extract = dyn_cast<tensor::ExtractOp>(op))
    single = this->extract(extract.getTensor(), operands.drop_front(), op.getLoc());
  else if (auto constant = dyn_cast<arith::ConstantOp>(op))
    single = captured(constant.getResult());
  else
    return apply(&op, operands);
  if (failed(single))
    return failure();
  return Elems{*single};
}

/// A scalar computed outside of linalg bodies: a constant, or arithmetic on
/// constants and single elements of arguments. It does not change with rows.
FailureOr<Elem> ElementEmitter::captured(Value value) {
  auto &known = scopes[0].elements;
  if (auto it = known.find({value.getAsOpaquePointer(), {}}); it != known.end())
    return it->second[0];
  Operation *def = value.getDefiningOp();
  if (!def || def->getNumResults() != 1 || def->getNumRegions() != 0)
    return emitError(value.getLoc(), "a scalar in a kernel must come from constants and arguments");
  FailureOr<Elem> result = failure();
  if (auto constant = dyn_cast<arith::ConstantOp>(def)) {
    Elem elem;
    elem.type = constant.getType();
    elem.value = at(0).clone(*def)->getResult(0);
    if (auto index = dyn_cast<arith::ConstantIndexOp>(def))
      elem.linear = LinearExpr(index.value());
    result = elem;
  } else {
    SmallVector<Elem> operands;
    for (Value operand : def->getOperands()) {
      if (isa<RankedTensorType>(operand.getType())) {
        operands.emplace_back();
        continue;
      }
      FailureOr<Elem> elem = captured(operand);
      if (failed(elem))
        return failure();
      operands.push_back(*elem);
    }
    if (auto extract = dyn_cast<tensor::ExtractOp>(def))
      result = this->extract(extract.getTensor(), ArrayRef(operands).drop_front(), def->getLoc());
    else if (FailureOr<Elems> results = apply(def, operands); succeeded(results))
      result = results->front();
  }
  if (succeeded(result))
    known[{value.getAsOpaquePointer(), {}}].push_back(*result);
  return result;
}

FailureOr<ElementEmitter::Elems> ElementEmitter::apply(Operation *op, ArrayRef<Elem> operands) {
  if (op->getNumResults() == 0 || !OpTrait::hasElementwiseMappableTraits(op))
    return op->emitError("a kernel cannot compute '") << op->getName() << "' per element";
  // Narrow numbers are for storage. Moving them is fine, computing is done in f32.
  bool narrow = llvm::any_of(op->getOperandTypes(), [](Type type) { return type.isBF16(); });
  if (narrow && !isa<arith::ExtFOp, arith::SelectOp, arith::BitcastOp>(op))
    return op->emitError("a kernel computes in f32: extend bf16 operands first");
  if (std::optional<Elem> fused = fuseMultiplyAdd(op, operands))
    return Elems{*fused};
  Elem shape; // what all results share
  for (const Elem &operand : operands) {
    shape.lanes |= operand.lanes;
    shape.scope = std::max(shape.scope, operand.scope);
  }
  SmallVector<Value> values;
  for (const Elem &operand : operands)
    values.push_back(materialize(operand, shape.lanes));
  SmallVector<Type> types(op->getResultTypes());
  if (shape.lanes)
    for (Type &type : types)
      type = VectorType::get({int64_t(width)}, type);
  Operation *copy = mlir::clone(at(shape.scope), op, types, values);
  // Any freedom to reassociate or contract would let vector and scalar code differ.
  if (auto fast = dyn_cast<arith::ArithFastMathInterface>(copy))
    copy->setAttr(fast.getFastMathAttrName(),
                  arith::FastMathFlagsAttr::get(op->getContext(), arith::FastMathFlags::none));
  Elems results;
  for (auto [value, type] : llvm::zip_equal(copy->getResults(), op->getResultTypes())) {
    Elem result = shape;
    result.value = value;
    result.type = type;
    if (isa<arith::MulFOp>(op))
      result.product = std::make_shared<std::pair<Elem, Elem>>(operands[0], operands[1]);
    results.push_back(std::move(result));
  }
  return results;
}

Elem ElementEmitter::negate(const Elem &elem, Location loc) {
  Elem result = elem;
  result.product = nullptr;
  Value value = materialize(elem, elem.lanes);
  result.value = arith::NegFOp::create(at(elem.scope), loc, value);
  return result;
}

std::optional<Elem> ElementEmitter::fuseMultiplyAdd(Operation *op, ArrayRef<Elem> operands) {
  if (!isa<arith::AddFOp, arith::SubFOp>(op))
    return std::nullopt;
  unsigned at1 = operands[1].product ? 1 : 0;
  if (!operands[at1].product)
    return std::nullopt;
  Elem a = operands[at1].product->first, b = operands[at1].product->second;
  Elem c = operands[1 - at1];
  if (isa<arith::SubFOp>(op)) {
    if (at1 == 1)
      a = negate(a, op->getLoc());
    else
      c = negate(c, op->getLoc());
  }
  Elem result;
  result.type = a.type;
  result.lanes = a.lanes || b.lanes || c.lanes;
  result.scope = std::max({a.scope, b.scope, c.scope});
  Value va = materialize(a, result.lanes), vb = materialize(b, result.lanes),
        vc = materialize(c, result.lanes);
  result.value = math::FmaOp::create(at(result.scope), op->getLoc(), va, vb, vc);
  return result;
}

Value ElementEmitter::materialize(const Elem &elem, bool lanes) {
  Location loc = kernel.func->getLoc();
  Value value = elem.value;
  int64_t stride = 0;
  if (!value) {
    stride = laneStride(*elem.linear);
    value = scalarIndex(*elem.linear);
    if (elem.type != value.getType())
      value = arith::IndexCastOp::create(at(elem.scope), loc, elem.type, value);
  }
  if (!lanes || isa<VectorType>(value.getType()))
    return value;
  auto type = VectorType::get({int64_t(width)}, elem.type);
  Value &broadcast = scopes[elem.scope].broadcasts[{value.getAsOpaquePointer(), width}];
  if (!broadcast)
    broadcast = vector::BroadcastOp::create(at(elem.scope), loc, type, value);
  if (stride == 0)
    return broadcast;
  SmallVector<APInt> steps;
  unsigned bits = elem.type.isIndex() ? 64 : elem.type.getIntOrFloatBitWidth();
  for (unsigned lane = 0; lane < width; ++lane)
    steps.push_back(APInt(64, stride * int64_t(lane), true).trunc(bits));
  Value iota = arith::ConstantOp::create(at(0), loc, type, DenseElementsAttr::get(type, steps));
  return arith::AddIOp::create(at(elem.scope), loc, broadcast, iota);
}

} // namespace cleave::cpu

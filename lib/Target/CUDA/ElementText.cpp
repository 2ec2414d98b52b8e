//===- ElementText.cpp - elements of tensors as CUDA statements -----------===//

#include "ElementText.h"
#include "ScalarText.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace cleave::cuda {

ElementText::ElementText(const Kernel &kernel) : kernel(kernel) {
  scopes.emplace_back();
  int64_t largest = kernel.space;
  for (Type type : func::FuncOp(kernel.func).getFunctionType().getInputs())
    largest = std::max(largest, cast<RankedTensorType>(type).getNumElements());
  // A grid may step past the end by as many elements as it has threads.
  indexText = largest < (int64_t(1) << 30) ? "int" : "long long";
}

std::string ElementText::freshName(StringRef prefix) {
  return prefix.str() + std::to_string(names[prefix.str()]++);
}

unsigned ElementText::open(std::string head) {
  Scope scope;
  scope.depth = scopes.back().depth + (head.empty() ? 0 : 1);
  scope.head = std::move(head);
  scopes.push_back(std::move(scope));
  return innermost();
}

void ElementText::close(StringRef before) {
  Scope inner = std::move(scopes.back());
  scopes.pop_back();
  if (!before.empty())
    line(innermost(), before.str());
  std::string &text = scopes.back().text;
  std::string indent(2 * scopes.back().depth, ' ');
  if (inner.head.empty()) {
    text += inner.text;
    return;
  }
  text += indent + inner.head + " {\n" + inner.text + indent + "}\n";
}

void ElementText::line(unsigned scope, const std::string &statement) {
  scopes[scope].text += std::string(2 * scopes[scope].depth, ' ') + statement + "\n";
}

unsigned ElementText::addDim(std::string name, unsigned scope, int64_t multiple) {
  dims.push_back({std::move(name), scope, multiple, false});
  return dims.size() - 1;
}

unsigned ElementText::addLane(std::string name, unsigned scope) {
  dims.push_back({std::move(name), scope, 1, true});
  return dims.size() - 1;
}

unsigned ElementText::scopeOf(ArrayRef<LinearExpr> index) const {
  unsigned scope = 0;
  for (const LinearExpr &expr : index)
    for (auto [id, coefficient] : expr.terms())
      scope = std::max(scope, dims[id].scope);
  return scope;
}

std::string ElementText::linearText(const LinearExpr &expr) const {
  std::string text;
  auto add = [&](bool negative, const std::string &term) {
    if (text.empty())
      text = negative ? "-" + term : term;
    else
      text += (negative ? " - " : " + ") + term;
  };
  for (auto [id, coefficient] : expr.terms()) {
    int64_t size = std::abs(coefficient);
    add(coefficient < 0, (size == 1 ? "" : std::to_string(size) + " * ") + dims[id].name);
  }
  if (expr.constant() != 0 || text.empty())
    add(expr.constant() < 0, std::to_string(std::abs(expr.constant())));
  return text;
}

std::string ElementText::operand(const Item &item) const {
  if (!item.linear)
    return item.text;
  std::string text = linearText(*item.linear);
  return (item.type.isIndex() || indexText == "int" ? "" : "int") + ("(" + text + ")");
}

std::string ElementText::typeOf(Type type) const {
  return typeText(type, indexText).value_or("float");
}

std::string ElementText::pointerOf(unsigned arg) const {
  unsigned firstOutput =
      func::FuncOp(kernel.func).getFunctionType().getNumInputs() - kernel.numOutputs;
  return arg < firstOutput ? "in" + std::to_string(arg) : "out" + std::to_string(arg - firstOutput);
}

std::string ElementText::bufferOf(unsigned buffer) const {
  return "buffer" + std::to_string(buffer);
}

std::optional<unsigned> ElementText::groupLane(const LinearExpr &address) const {
  std::optional<unsigned> lane;
  bool aligned = address.constant() % 4 == 0;
  for (auto [id, coefficient] : address.terms()) {
    if (dims[id].lane && coefficient == 1)
      lane = id;
    else
      aligned &= coefficient * dims[id].multiple % 4 == 0;
  }
  return aligned ? lane : std::nullopt;
}

Item ElementText::load(const std::string &pointer, Type element, const LinearExpr &address,
                       unsigned minScope, const void *identity) {
  reads.insert(pointer);
  std::optional<unsigned> lane = groupLane(address);
  LinearExpr first = lane ? address + LinearExpr::dim(*lane, -1) : address;
  unsigned scope = std::max(minScope, scopeOf({first}));
  // A group and a single element at one address are different loads.
  std::pair<const void *, IndexList> key{identity, {first, LinearExpr(lane ? 1 : 0)}};
  auto &known = scopes[scope].elements;
  auto it = known.find(key);
  if (it == known.end()) {
    Item item;
    item.type = element;
    item.scope = scope;
    item.text = freshName("x");
    std::string type = typeOf(element);
    if (lane)
      line(scope, "const Four<" + type + "> " + item.text + " = load4(" + pointer + " + " +
                      linearText(first) + ");");
    else
      line(scope,
           "const " + type + " " + item.text + " = " + pointer + "[" + linearText(first) + "];");
    it = known.try_emplace(key, SmallVector<Item, 2>{item}).first;
  }
  Item item = it->second[0];
  if (lane) {
    item.text += ".at[" + dims[*lane].name + "]";
    item.scope = dims[*lane].scope;
  }
  return item;
}

LinearExpr ElementText::storedAddress(const RootValue &slot, ArrayRef<LinearExpr> index) const {
  if (slot.dest)
    return slot.dest->address(index);
  LinearExpr address;
  for (auto [i, stride] : llvm::zip_equal(index, slot.bufferStrides))
    address = address + i * stride;
  return address;
}

Item ElementText::loadStored(const RootValue &slot, ArrayRef<LinearExpr> index) {
  std::string pointer = slot.dest ? pointerOf(slot.dest->arg) : bufferOf(*slot.buffer);
  return load(pointer, getElementTypeOrSelf(slot.value.getType()), storedAddress(slot, index),
              nestScope, &slot);
}

void ElementText::complete(const Root &root, ArrayRef<Item> scalars) {
  for (auto [i, slot] : llvm::enumerate(root.values)) {
    auto [home, position] = kernel.rootOf.lookup(slot.value);
    if (home == &root)
      completed[slot.value] = scalars.empty() ? Item() : scalars[i];
  }
}

void ElementText::store(const RootValue &slot, ArrayRef<LinearExpr> index, const Item &item,
                        StringRef guard) {
  std::string pointer = slot.dest ? pointerOf(slot.dest->arg) : bufferOf(*slot.buffer);
  writes.insert(pointer);
  LinearExpr address = storedAddress(slot, index);
  std::string condition = guard.empty() ? "" : "if (" + guard.str() + ") ";
  std::optional<unsigned> lane = groupLane(address);
  if (!lane) {
    line(innermost(),
         condition + pointer + "[" + linearText(address) + "] = " + operand(item) + ";");
    return;
  }
  std::string group = freshName("y");
  unsigned scope = dims[*lane].scope - 1;
  line(scope, "Four<" + typeOf(getElementTypeOrSelf(slot.value.getType())) + "> " + group + ";");
  line(innermost(), group + ".at[" + dims[*lane].name + "] = " + operand(item) + ";");
  LinearExpr first = address + LinearExpr::dim(*lane, -1);
  groupStores.push_back(
      {condition + "store4(" + pointer + " + " + linearText(first) + ", " + group + ");", scope});
}

void ElementText::flushGroups() {
  for (const GroupStore &store : groupStores)
    line(store.scope, store.statement);
  groupStores.clear();
}

FailureOr<Item> ElementText::element(Value source, IndexList sourceIndex) {
  FailureOr<Element> resolved = resolveElement({source, std::move(sourceIndex)});
  if (failed(resolved))
    return failure();
  auto &[value, index] = *resolved;
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    auto type = cast<RankedTensorType>(arg.getType());
    return load(pointerOf(arg.getArgNumber()), type.getElementType(),
                denseAddress(type.getShape(), index), 0, arg.getAsOpaquePointer());
  }
  if (auto stored = completed.find(value); stored != completed.end()) {
    if (!stored->second.text.empty())
      return stored->second;
    auto [root, position] = kernel.rootOf.lookup(value);
    // Only this row's elements are there; others are computed again.
    if (!root->overRows || root->reduction || index[0].isDim(0))
      return loadStored(root->values[position], index);
  }
  Operation *def = value.getDefiningOp();
  if (auto fill = dyn_cast<linalg::FillOp>(def))
    return captured(fill.value());
  if (auto splat = dyn_cast<arith::ConstantOp>(def))
    return constant(def, cast<SplatElementsAttr>(splat.getValue()).getSplatValue<Attribute>());
  auto op = dyn_cast<linalg::GenericOp>(def);
  if (!op || isReduction(op))
    return def->emitError("its value is used before it is complete");

  unsigned resultNo = cast<OpResult>(value).getResultNumber();
  FailureOr<IndexList> loops = loopsOfElement(op, resultNo, index);
  if (failed(loops))
    return failure();
  unsigned scope = scopeOf(*loops);
  std::pair<const void *, IndexList> key{op.getOperation(), *loops};
  for (unsigned inner = scope; inner <= innermost(); ++inner)
    if (auto it = scopes[inner].elements.find(key); it != scopes[inner].elements.end())
      return it->second[resultNo];
  FailureOr<SmallVector<Item, 2>> results = body(op, *loops, {});
  if (failed(results))
    return failure();
  Item result = (*results)[resultNo];
  // What was made of values stored before exists in its nest only.
  for (const Item &item : *results)
    scope = std::max(scope, item.scope);
  scopes[scope].elements.try_emplace(key, std::move(*results));
  return result;
}

FailureOr<SmallVector<Item, 2>> ElementText::body(linalg::GenericOp op, ArrayRef<LinearExpr> loops,
                                                  ArrayRef<Item> accumulators) {
  llvm::DenseMap<Value, Item> values;
  for (auto [i, acc] : llvm::enumerate(accumulators))
    values[op.getRegionOutputArgs()[i]] = acc;
  auto lookup = [&](Value value) -> FailureOr<Item> {
    if (auto it = values.find(value); it != values.end())
      return it->second;
    auto arg = dyn_cast<BlockArgument>(value);
    if (!arg || arg.getOwner() != op.getBody())
      return captured(value);
    Value operand = op->getOperand(arg.getArgNumber());
    FailureOr<Item> item = failure();
    if (isa<RankedTensorType>(operand.getType())) {
      FailureOr<IndexList> index = operandIndex(op, arg.getArgNumber(), loops);
      if (succeeded(index))
        item = element(operand, *index);
    } else {
      item = captured(operand);
    }
    if (succeeded(item))
      values[value] = *item;
    return item;
  };
  for (Operation &inner : op.getBody()->without_terminator()) {
    SmallVector<Item> operands;
    for (Value operand : inner.getOperands()) {
      if (isa<RankedTensorType>(operand.getType())) {
        operands.emplace_back(); // the tensor of an extract
        continue;
      }
      FailureOr<Item> item = lookup(operand);
      if (failed(item))
        return failure();
      operands.push_back(*item);
    }
    FailureOr<Item> result = bodyOp(inner, loops, operands);
    if (failed(result))
      return failure();
    values[inner.getResult(0)] = *result;
  }
  SmallVector<Item, 2> results;
  for (Value yielded : op.getBody()->getTerminator()->getOperands()) {
    FailureOr<Item> item = lookup(yielded);
    if (failed(item))
      return failure();
    results.push_back(*item);
  }
  return results;
}

FailureOr<Item> ElementText::bodyOp(Operation &op, ArrayRef<LinearExpr> loops,
                                    ArrayRef<Item> operands) {
  if (auto index = dyn_cast<linalg::IndexOp>(op)) {
    const LinearExpr &expr = loops[index.getDim()];
    return Item{"", index.getType(), scopeOf({expr}), expr};
  }
  if (auto extract = dyn_cast<tensor::ExtractOp>(op))
    return this->extract(extract.getTensor(), operands.drop_front(), op.getLoc());
  if (isa<arith::ConstantOp>(op))
    return captured(op.getResult(0));
  return apply(&op, operands);
}

FailureOr<Item> ElementText::constant(Operation *op, Attribute value) {
  std::optional<std::string> text = literalText(value);
  if (!text)
    return op->emitError("a constant of type ") << cast<TypedAttr>(value).getType();
  Item item{*text, cast<TypedAttr>(value).getType(), 0, std::nullopt};
  if (auto number = dyn_cast<IntegerAttr>(value); number && item.type.isIndex())
    item.linear = LinearExpr(number.getInt());
  return item;
}

/// A scalar computed outside of linalg bodies: a constant, or arithmetic on
/// constants and single elements of arguments.
FailureOr<Item> ElementText::captured(Value value) {
  auto &known = scopes[0].elements;
  std::pair<const void *, IndexList> key{value.getAsOpaquePointer(), {}};
  if (auto it = known.find(key); it != known.end())
    return it->second[0];
  Operation *def = value.getDefiningOp();
  if (!def || def->getNumResults() != 1 || def->getNumRegions() != 0)
    return emitError(value.getLoc(), "a scalar in a kernel must come from constants and arguments");
  if (auto number = dyn_cast<arith::ConstantOp>(def))
    return constant(def, number.getValue());
  SmallVector<Item> operands;
  for (Value operand : def->getOperands()) {
    FailureOr<Item> item = Item();
    if (!isa<RankedTensorType>(operand.getType()))
      item = captured(operand);
    if (failed(item))
      return failure();
    operands.push_back(*item);
  }
  FailureOr<Item> result = failure();
  if (auto extract = dyn_cast<tensor::ExtractOp>(def))
    result = this->extract(extract.getTensor(), ArrayRef(operands).drop_front(), def->getLoc());
  else
    result = apply(def, operands);
  if (succeeded(result))
    scopes[0].elements[key].push_back(*result);
  return result;
}

FailureOr<Item> ElementText::extract(Value tensor, ArrayRef<Item> indices, Location loc) {
  BlockArgument arg = denseArgument(tensor);
  if (!arg || arg.getOwner() != &kernel.func->getRegion(0).front())
    return emitError(loc, "a kernel may only gather from its arguments");
  IndexList linear;
  for (const Item &item : indices) {
    if (item.linear) {
      linear.push_back(*item.linear);
      continue;
    }
    auto [it, added] = dataDims.try_emplace(item.text, 0);
    if (added)
      it->second = addDim(item.text, item.scope);
    linear.push_back(LinearExpr::dim(it->second));
  }
  auto type = cast<RankedTensorType>(tensor.getType());
  return load(pointerOf(arg.getArgNumber()), type.getElementType(),
              denseAddress(type.getShape(), linear), 0, arg.getAsOpaquePointer());
}

FailureOr<Item> ElementText::apply(Operation *op, ArrayRef<Item> operands) {
  if (isa<arith::IndexCastOp>(op) && operands[0].linear) {
    Item item = operands[0];
    item.type = op->getResult(0).getType();
    return item;
  }
  SmallVector<std::string> texts;
  Item result;
  for (const Item &item : operands) {
    texts.push_back(operand(item));
    result.scope = std::max(result.scope, item.scope);
  }
  std::optional<std::string> text = expressionText(op, texts, indexText);
  if (!text)
    return op->emitError("'") << op->getName() << "' has no CUDA expression here";
  result.type = op->getResult(0).getType();
  result.text = freshName("v");
  line(result.scope, "const " + typeOf(result.type) + " " + result.text + " = " + *text + ";");
  return result;
}

} // namespace cleave::cuda

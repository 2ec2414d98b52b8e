//===- Passage.cpp - Forward through the layers and back -------------------===//

#include "lib/Transforms/ApplyPlan/Passage.h"

using namespace mlir;
namespace cleave {

/// The value of a forward call that its backward half takes as `input`.
static Value valueOf(func::CallOp forward, const SplitKind &kind, BackwardInput input) {
  switch (input.source) {
  case BackwardInput::Argument:
    return forward.getOperand(input.index);
  case BackwardInput::Result:
    return forward.getResult(input.index);
  case BackwardInput::Saved:
    return forward.getResult(kind.results + input.index);
  }
  llvm_unreachable("an input has one of three sources");
}

/// `slice` of every iteration, one after the other.
static Type stackedType(Type slice, int64_t iterations, StringAttr along) {
  auto type = cast<RankedTensorType>(slice);
  SmallVector<int64_t> shape = {iterations};
  SmallVector<StringAttr> names = {along};
  llvm::append_range(shape, type.getShape());
  llvm::append_range(names, nn::dimNames(type));
  return nn::namedTensor(type.getElementType(), shape, names);
}

Value Passage::constant(Location loc, Type type, double value) {
  return nn::FillOp::create(b, loc, type, b.getF64FloatAttr(value));
}

Value Passage::forward(Block &from, ValueRange arguments) {
  map.map(from.getArguments(), arguments);
  for (Operation &op : from.without_terminator()) {
    if (auto original = dyn_cast<nn::RepeatOp>(op))
      steps.push_back(repeat(original));
    else if (auto original = dyn_cast<func::CallOp>(op))
      steps.push_back(call(original));
    else
      b.clone(op, map);
  }
  return map.lookup(from.getTerminator()->getOperand(0));
}

Passage::Call Passage::call(func::CallOp original) {
  SplitKind &kind = kinds[original.getCallee()];
  SmallVector<Value> operands =
      llvm::map_to_vector(original.getOperands(), [&](Value v) { return map.lookup(v); });
  auto made = func::CallOp::create(b, original.getLoc(), kind.forward, operands);
  map.map(original.getResults(), made.getResults().take_front(original.getNumResults()));
  return {made, &kind};
}

Passage::Repeat Passage::repeat(nn::RepeatOp original) {
  Repeat out;
  Location loc = original.getLoc();
  Block &from = original.getBody().front();
  auto body = std::make_unique<Region>();
  SmallVector<Value> yielded;
  {
    OpBuilder::InsertionGuard guard(b);
    Block *block =
        b.createBlock(body.get(), {}, from.getArgumentTypes(),
                      llvm::map_to_vector(from.getArguments(), [](Value v) { return v.getLoc(); }));
    map.map(from.getArguments(), block->getArguments());
    for (Operation &op : from.without_terminator()) {
      if (auto inner = dyn_cast<func::CallOp>(op))
        out.calls.push_back(call(inner));
      else
        b.clone(op, map);
    }
    for (Value v : from.getTerminator()->getOperands())
      yielded.push_back(map.lookup(v));
    for (const Call &inner : out.calls)
      if (record)
        stack(inner, out, block);
    for (auto [v, position] : out.stacked)
      yielded.push_back(v);
    nn::YieldOp::create(b, loc, yielded);
  }
  auto along = b.getStringAttr("layer");
  SmallVector<Type> stacked;
  for (auto [v, position] : out.stacked)
    stacked.push_back(stackedType(v.getType(), original.getIterations(), along));
  SmallVector<Value> carried =
      llvm::map_to_vector(original.getCarried(), [&](Value v) { return map.lookup(v); });
  out.made = nn::RepeatOp::create(
      b, loc, TypeRange(ValueRange(carried)), stacked, original.getCountAttr(), along, UnitAttr(),
      original.getBlocksAttr(), original.getLayersAttr(), carried, ValueRange());
  out.made.getBody().takeBody(*body);
  map.map(original.getLast(), out.made.getLast());
  return out;
}

/// Notes what the backward half of `call` reads and differs between iterations.
void Passage::stack(const Call &call, Repeat &into, Block *block) {
  for (BackwardInput input : call.kind->inputs) {
    Value v = valueOf(call.made, *call.kind, input);
    if (v.getParentBlock() == block && !v.getDefiningOp<nn::LoadOp>())
      into.stacked.insert({v, into.stacked.size()});
  }
}

void Passage::backward(Value loss) {
  Gradients gradients;
  gradients[loss] = constant(loss.getLoc(), loss.getType(), 1.0);
  for (const auto &step : llvm::reverse(steps)) {
    if (auto *made = std::get_if<Call>(&step))
      back(*made, gradients, [](Value v) { return v; });
    else
      back(std::get<Repeat>(step), gradients);
  }
}

Value Passage::gradientOf(Value v, Gradients &gradients) {
  Value known = gradients.lookup(v);
  return known ? known : constant(v.getLoc(), v.getType(), 0.0);
}

void Passage::add(Gradients &gradients, Value of, Value gradient) {
  Value &sum = gradients[of];
  sum = sum ? nn::AddOp::create(b, gradient.getLoc(), sum.getType(), sum, gradient).getResult()
            : gradient;
}

/// `seen` is what a value of the forward is called on the way back.
void Passage::back(const Call &call, Gradients &gradients, function_ref<Value(Value)> seen) {
  const SplitKind &kind = *call.kind;
  func::CallOp forward = call.made;
  SmallVector<Value> inputs;
  for (BackwardInput input : kind.inputs)
    inputs.push_back(seen(valueOf(forward, kind, input)));
  for (int64_t r : kind.activeResults)
    inputs.push_back(gradientOf(forward.getResult(r), gradients));
  auto made = func::CallOp::create(b, forward.getLoc(), kind.backward, inputs);
  for (auto [a, gradient] : llvm::zip(kind.activeArguments, made.getResults())) {
    Value operand = forward.getOperand(a);
    if (auto source = operand.getDefiningOp<nn::LoadOp>())
      nn::AccumulateOp::create(b, forward.getLoc(), gradient, source.getParameter(),
                               nn::Slot::Gradient);
    else
      add(gradients, operand, gradient);
  }
}

void Passage::back(const Repeat &repeat, Gradients &gradients) {
  nn::RepeatOp forward = repeat.made;
  Location loc = forward.getLoc();
  Block &from = forward.getBody().front();
  SmallVector<Value> carried =
      llvm::map_to_vector(forward.getLast(), [&](Value v) { return gradientOf(v, gradients); });
  unsigned count = carried.size();
  auto made = nn::RepeatOp::create(b, loc, TypeRange(ValueRange(carried)), TypeRange(),
                                   forward.getCountAttr(), forward.getAlongAttr(), b.getUnitAttr(),
                                   forward.getBlocksAttr(), forward.getLayersAttr(), carried,
                                   forward.getStacked());
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Type> types(made.getResultTypes());
  for (auto [v, position] : repeat.stacked)
    types.push_back(v.getType());
  Block *block =
      b.createBlock(&made.getBody(), {}, types, SmallVector<Location>(types.size(), loc));
  Gradients inner;
  for (auto [v, gradient] :
       llvm::zip(from.getTerminator()->getOperands().take_front(count), block->getArguments()))
    add(inner, v, gradient);
  IRMapping loads;
  auto seen = [&](Value v) -> Value {
    if (auto it = repeat.stacked.find(v); it != repeat.stacked.end())
      return block->getArgument(count + it->second);
    if (v.getParentBlock() != &from || loads.contains(v))
      return loads.lookupOrDefault(v);
    return b.clone(*v.getDefiningOp(), loads)->getResult(0);
  };
  for (const Call &call : llvm::reverse(repeat.calls))
    back(call, inner, seen);
  SmallVector<Value> yielded =
      llvm::map_to_vector(from.getArguments(), [&](Value v) { return gradientOf(v, inner); });
  nn::YieldOp::create(b, loc, yielded);
  b.setInsertionPointAfter(made);
  for (auto [v, gradient] : llvm::zip(forward.getCarried(), made.getLast()))
    add(gradients, v, gradient);
}

} // namespace cleave

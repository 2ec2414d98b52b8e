//===- Passage.cpp - Forward through the layers and back -------------------===//

#include "lib/Transforms/ApplyPlan/Passage.h"
#include "mlir/Transforms/RegionUtils.h"

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

/// The operator that reads `v` from what is kept across steps, or null.
static StateOpInterface readerOf(Value v) {
  auto state = v.getDefiningOp<StateOpInterface>();
  return state && state.getStateAccess() == StateAccess::Read ? state : StateOpInterface();
}

/// Whether `v` differs between the iterations of `block` and is no slice that it scans:
/// it is made in it, or one of the `carried` first arguments.
static bool isOfIteration(Value v, Block *block, unsigned carried) {
  if (v.getParentBlock() != block || readerOf(v))
    return false;
  auto argument = dyn_cast<BlockArgument>(v);
  return !argument || argument.getArgNumber() < carried;
}

Value Passage::constant(Location loc, Type type, double value) {
  return nn::FillOp::create(b, loc, type, b.getF64FloatAttr(value));
}

SmallVector<WholeBatchOpInterface> batchSumsIn(Block &block) {
  return llvm::to_vector(block.getOps<WholeBatchOpInterface>());
}

llvm::DenseSet<Operation *> neededFor(ValueRange wanted, Block &block) {
  llvm::DenseSet<Operation *> needed;
  SmallVector<Value> work(wanted);
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || op->getBlock() != &block || !needed.insert(op).second)
      continue;
    llvm::append_range(work, op->getOperands());
    visitUsedValuesDefinedAbove(op->getRegions(),
                                [&](OpOperand *operand) { work.push_back(operand->get()); });
  }
  return needed;
}

void Passage::addTerm(Value value, StringRef total) {
  nn::AccumulateOp::create(b, value.getLoc(), value, total, nn::Slot::Value, DenseI64ArrayAttr());
}

SmallVector<Value> Passage::forward(Block &from, ValueRange arguments, ValueRange wanted) {
  map.map(from.getArguments(), arguments);
  const llvm::DenseSet<Operation *> needed = neededFor(wanted, from);
  for (Operation &op : from.without_terminator()) {
    if (!needed.contains(&op))
      continue;
    auto original = dyn_cast<func::CallOp>(op);
    if (auto layers = dyn_cast<nn::RepeatOp>(op))
      steps.push_back(repeat(layers));
    else if (original && kinds[original.getCallee()].chunks)
      steps.push_back(pieces(original, kinds[original.getCallee()]));
    else if (original)
      steps.push_back(call(original));
    else if (auto whole = dyn_cast<WholeBatchOpInterface>(op))
      sum(whole);
    else {
      Operation *made = b.clone(op, map);
      if (auto between = dyn_cast<Between>(made); between && made->getNumOperands() > 0)
        steps.emplace_back(between);
    }
  }
  // The loss of a kind that runs in pieces is added piece by piece.
  return llvm::map_to_vector(wanted, [&](Value v) { return map.lookupOrNull(v); });
}

void Passage::forwardToLoss(Block &from, ValueRange arguments) {
  ValueRange returned = from.getTerminator()->getOperands();
  for (auto [i, term] :
       llvm::enumerate(forward(from, arguments, record ? returned : returned.take_front())))
    if (term) {
      addTerm(term, i == 0 ? "step.loss" : "step.terms");
      terms.push_back(term);
    }
}

void Passage::sum(WholeBatchOpInterface original) {
  Value total = map.lookup(original.getContribution());
  if (auto it = sums.find(original); it != sums.end())
    total = nn::LoadOp::create(b, original->getLoc(), total.getType(), it->second, nn::Slot::Value,
                               DenseI64ArrayAttr());
  map.map(original.getTotal(), total);
}

/// Forward and, with `record`, backward of each piece in turn.
Passage::Pieces Passage::pieces(func::CallOp original, SplitKind &kind) {
  const Chunks &chunks = *kind.chunks;
  Location loc = original.getLoc();
  auto isGivenInPieces = [&](Value v) {
    return llvm::any_of(chunks.along.getAsValueRange<StringAttr>(),
                        [&](StringRef dim) { return nn::findDim(v.getType(), dim) >= 0; });
  };
  SmallVector<Value> scanned, wholes;
  SmallVector<Type> slices, stacked;
  for (auto [v, type] : llvm::zip(original.getOperands(), kind.forward.getArgumentTypes()))
    if (isGivenInPieces(v)) {
      scanned.push_back(map.lookup(v));
      slices.push_back(type);
    }
  auto body = std::make_unique<Region>();
  {
    OpBuilder::InsertionGuard guard(b);
    Block *block = b.createBlock(body.get(), {}, slices, SmallVector<Location>(slices.size(), loc));
    SmallVector<Value> operands;
    unsigned next = 0;
    for (Value v : original.getOperands()) {
      Operation *load = readerOf(map.lookup(v));
      operands.push_back(isGivenInPieces(v) ? Value(block->getArgument(next++))
                         : load             ? b.clone(*load)->getResult(0)
                                            : map.lookup(v));
    }
    auto made = func::CallOp::create(b, loc, kind.forward, operands);
    addTerm(made.getResult(0), "step.loss");
    SmallVector<Value> yielded;
    if (record) {
      Gradients inner;
      inner[made.getResult(0)] = constant(loc, made.getResult(0).getType(), 1.0);
      std::vector<Deferred> none; // such a kind puts nothing off
      back({made, &kind}, inner, [](Value v) { return v; }, none);
      for (auto [v, argument] : llvm::zip(scanned, block->getArguments()))
        if (inner.contains(argument)) {
          yielded.push_back(inner.lookup(argument));
          wholes.push_back(v);
          stacked.push_back(v.getType());
        }
    }
    nn::YieldOp::create(b, loc, yielded);
  }
  int64_t count = 1;
  for (int64_t n : chunks.pieces)
    count *= n;
  bool oneBlock = llvm::all_of(chunks.blocks, [](int64_t n) { return n == 1; });
  auto made =
      nn::RepeatOp::create(b, loc, TypeRange(), stacked, b.getI64IntegerAttr(count), chunks.along,
                           b.getDenseI64ArrayAttr(chunks.pieces),
                           oneBlock ? DenseI64ArrayAttr() : b.getDenseI64ArrayAttr(chunks.blocks),
                           UnitAttr(), DenseI64ArrayAttr(), ValueRange(), scanned);
  made.getBody().takeBody(*body);
  Pieces out;
  for (auto [v, gradient] : llvm::zip(wholes, made.getStacked()))
    out.gradients[v] = gradient;
  return out;
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
  out.made =
      nn::RepeatOp::create(b, loc, TypeRange(ValueRange(carried)), stacked, original.getCountAttr(),
                           b.getArrayAttr({along}), DenseI64ArrayAttr(), DenseI64ArrayAttr(),
                           UnitAttr(), original.getLayersAttr(), carried, ValueRange());
  out.made.getBody().takeBody(*body);
  map.map(original.getLast(), out.made.getLast());
  return out;
}

/// Notes what the backward half of `call` reads and differs between iterations.
void Passage::stack(const Call &call, Repeat &into, Block *block) {
  for (BackwardInput input : call.kind->inputs) {
    Value v = valueOf(call.made, *call.kind, input);
    if (v.getParentBlock() == block && !readerOf(v))
      into.stacked.insert({v, into.stacked.size()});
  }
}

SmallVector<Value> Passage::backward(ValueRange outputs, ValueRange given, ValueRange inputs) {
  Gradients gradients;
  for (auto [output, gradient] : llvm::zip(outputs, given))
    add(gradients, output, gradient);
  for (Value term : terms)
    gradients[term] = constant(term.getLoc(), term.getType(), 1.0);
  for (const auto &step : llvm::reverse(steps)) {
    if (auto *made = std::get_if<Call>(&step)) {
      std::vector<Deferred> left;
      back(*made, gradients, [](Value v) { return v; }, left);
      deferred.insert(deferred.end(), left.begin(), left.end());
    } else if (auto *layers = std::get_if<Repeat>(&step))
      back(*layers, gradients);
    else if (auto *between = std::get_if<Between>(&step))
      back(*between, gradients);
    else
      for (auto [v, gradient] : std::get<Pieces>(step).gradients)
        add(gradients, v, gradient);
  }
  return llvm::map_to_vector(inputs, [&](Value v) { return gradientOf(v, gradients); });
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

/// Adds `gradient` to that of `argument` of a call, which is a kept tensor.
void Passage::accumulate(func::CallOp forward, int64_t argument, Value gradient) {
  nn::AccumulateOp::create(b, forward.getLoc(), gradient,
                           readerOf(forward.getOperand(argument)).getStateSymbol(),
                           nn::Slot::Gradient, DenseI64ArrayAttr());
}

/// `seen` is what a value of the forward is called on the way back.
void Passage::back(const Call &call, Gradients &gradients, function_ref<Value(Value)> seen,
                   std::vector<Deferred> &left) {
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
    if (readerOf(operand))
      accumulate(forward, a, gradient);
    else
      add(gradients, operand, gradient);
  }
  if (kind.weights)
    left.push_back({forward, made, call.kind});
}

void Passage::back(const Repeat &repeat, Gradients &gradients) {
  nn::RepeatOp forward = repeat.made;
  Location loc = forward.getLoc();
  Block &from = forward.getBody().front();
  SmallVector<Value> carried =
      llvm::map_to_vector(forward.getLast(), [&](Value v) { return gradientOf(v, gradients); });
  const auto count = static_cast<unsigned>(carried.size());
  SmallVector<Type> types(TypeRange(ValueRange{carried}));
  for (auto [v, position] : repeat.stacked)
    types.push_back(v.getType());
  auto body = std::make_unique<Region>();
  SmallVector<Type> kept;
  DeferredRepeat left;
  {
    OpBuilder::InsertionGuard guard(b);
    Block *block = b.createBlock(body.get(), {}, types, SmallVector<Location>(types.size(), loc));
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
      back(call, inner, seen, left.calls);
    SmallVector<Value> yielded =
        llvm::map_to_vector(from.getArguments(), [&](Value v) { return gradientOf(v, inner); });
    // What is put off reads slices that are there, and others that must be kept.
    for (const Deferred &call : left.calls)
      for (SplitKind::WeightInput input : call.kind->weightInputs)
        if (Value v = inputOf(call, input);
            isOfIteration(v, block, count) &&
            !llvm::is_contained(ArrayRef(yielded).drop_front(count), v)) {
          yielded.push_back(v);
          kept.push_back(
              stackedType(v.getType(), forward.getIterations(), b.getStringAttr("layer")));
        }
    nn::YieldOp::create(b, loc, yielded);
  }
  auto along = b.getArrayAttr({b.getStringAttr("layer")});
  auto made =
      nn::RepeatOp::create(b, loc, TypeRange(ValueRange(carried)), kept, forward.getCountAttr(),
                           along, DenseI64ArrayAttr(), DenseI64ArrayAttr(), b.getUnitAttr(),
                           forward.getLayersAttr(), carried, forward.getStacked());
  made.getBody().takeBody(*body);
  for (auto [v, gradient] : llvm::zip(forward.getCarried(), made.getLast()))
    add(gradients, v, gradient);
  if (!left.calls.empty()) {
    left.backward = made;
    deferred.emplace_back(std::move(left));
  }
}

void Passage::back(Between op, Gradients &gradients) {
  SmallVector<Value> given =
      llvm::map_to_vector(op->getResults(), [&](Value v) { return gradientOf(v, gradients); });
  const SmallVector<bool> wanted(op->getNumOperands(), true);
  for (auto [operand, gradient] : llvm::zip(op->getOperands(), op.buildGradient(b, given, wanted)))
    if (gradient)
      add(gradients, operand, gradient);
}

/// What the weights of a call read, as the way back calls it.
Value Passage::inputOf(Deferred call, SplitKind::WeightInput input) {
  return input.isKept ? call.backward.getResult(call.kind->activeArguments.size() + input.index)
                      : call.backward.getOperand(input.index);
}

void Passage::weights() {
  for (auto &left : deferred)
    if (auto *call = std::get_if<Deferred>(&left))
      weights(*call, [](Value v) { return v; });
    else
      weights(std::get<DeferredRepeat>(left));
}

void Passage::weights(Deferred call, function_ref<Value(Value)> seen) {
  SmallVector<Value> inputs;
  for (SplitKind::WeightInput input : call.kind->weightInputs)
    inputs.push_back(seen(inputOf(call, input)));
  auto made = func::CallOp::create(b, call.forward.getLoc(), call.kind->weights, inputs);
  for (auto [a, gradient] : llvm::zip(call.kind->weightArguments, made.getResults()))
    accumulate(call.forward, a, gradient);
}

/// Through the layers once more, in the order of the way back.
void Passage::weights(const DeferredRepeat &repeat) {
  nn::RepeatOp backward = repeat.backward;
  Block &from = backward.getBody().front();
  const auto count = static_cast<unsigned>(backward.getCarried().size());
  // Values of an iteration, and the stacked ones of which they are slices.
  llvm::MapVector<Value, Value> slices;
  for (const Deferred &call : repeat.calls)
    for (SplitKind::WeightInput input : call.kind->weightInputs)
      if (Value v = inputOf(call, input); v.getParentBlock() == &from) {
        if (auto argument = dyn_cast<BlockArgument>(v);
            argument && argument.getArgNumber() >= count)
          slices[v] = backward.getScanned()[argument.getArgNumber() - count];
        else
          for (auto [yielded, whole] : llvm::zip(
                   from.getTerminator()->getOperands().drop_front(count), backward.getStacked()))
            if (yielded == v)
              slices[v] = whole;
      }
  SmallVector<Value> scanned;
  SmallVector<Type> types;
  for (auto &[slice, whole] : slices) {
    scanned.push_back(whole);
    types.push_back(slice.getType());
  }
  Location loc = backward.getLoc();
  auto made =
      nn::RepeatOp::create(b, loc, TypeRange(), TypeRange(), backward.getCountAttr(),
                           backward.getAlongAttr(), DenseI64ArrayAttr(), DenseI64ArrayAttr(),
                           b.getUnitAttr(), backward.getLayersAttr(), ValueRange(), scanned);
  OpBuilder::InsertionGuard guard(b);
  Block *block =
      b.createBlock(&made.getBody(), {}, types, SmallVector<Location>(types.size(), loc));
  IRMapping own;
  for (auto [entry, argument] : llvm::zip(slices, block->getArguments()))
    own.map(entry.first, argument);
  for (const Deferred &call : repeat.calls)
    weights(call, [&](Value v) { return own.lookupOrDefault(v); });
  nn::YieldOp::create(b, loc, ValueRange());
}

} // namespace cleave

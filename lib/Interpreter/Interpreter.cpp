//===- Interpreter.cpp - The float64 reference interpreter -----------------===//

#include "cleave/Interpreter/Interpreter.h"

#include "dialects/Interfaces/Interfaces.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <limits>
#include <memory>

using namespace mlir;
using namespace cleave;

namespace {
/// Values are shared, not copied, between the caller and the called.
using ValuePtr = std::shared_ptr<const RankTensors>;

class Run {
public:
  Run(StateStore &state, const InterpreterOptions &options) : state(state), options(options) {}

  FailureOr<std::vector<ValuePtr>> call(FunctionOpInterface function, ArrayRef<ValuePtr> arguments);

private:
  using Frame = llvm::DenseMap<Value, ValuePtr>;

  LogicalResult step(Operation *op, Frame &frame);
  LogicalResult compute(Operation *op, Frame &frame);
  LogicalResult exchange(CollectiveOpInterface op, Frame &frame);
  LogicalResult sumStages(StageExchangeOpInterface op, Frame &frame);
  LogicalResult access(StateOpInterface op, Frame &frame);
  LogicalResult enter(CallOpInterface op, Frame &frame);
  LogicalResult repeat(RepeatOpInterface op, Frame &frame);
  LogicalResult constant(Operation *op, Attribute value, Frame &frame);
  LogicalResult bind(Operation *op, std::vector<ValuePtr> results, Frame &frame);

  std::vector<ValuePtr> operandsOf(Operation *op, const Frame &frame) const;

  StateStore &state;
  const InterpreterOptions &options;
  SmallVector<Operation *> stack;
  /// Repeats that are being run, from the outermost.
  SmallVector<Iteration> iterations;
  /// Of the repeat that is being run.
  int64_t iteration = 0;
};
} // namespace

/// The static shape of `type`; fails with a diagnostic at `op` if there is none.
static FailureOr<ArrayRef<int64_t>> staticShape(Operation *op, Type type) {
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    if (tensor.hasStaticShape())
      return tensor.getShape();
    op->emitError() << "cannot be interpreted: '" << op->getName() << "' has the type " << type
                    << ", whose shape is not static; specialise its sizes first";
    return failure();
  }
  if (type.isIntOrIndexOrFloat())
    return ArrayRef<int64_t>();
  op->emitError() << "cannot be interpreted: '" << op->getName() << "' has a value of type " << type
                  << ", which is neither a tensor nor a number";
  return failure();
}

/// Results of `op` for one rank, of the right shapes and full of NaN.
static FailureOr<SmallVector<HostTensor>> poisonedResults(Operation *op) {
  SmallVector<HostTensor> results;
  for (Type type : op->getResultTypes()) {
    FailureOr<ArrayRef<int64_t>> shape = staticShape(op, type);
    if (failed(shape))
      return failure();
    results.emplace_back(*shape, std::numeric_limits<double>::quiet_NaN());
  }
  return results;
}

/// From by-rank to by-result order.
static std::vector<ValuePtr> byResult(MutableArrayRef<SmallVector<HostTensor>> byRank,
                                      unsigned count) {
  std::vector<ValuePtr> out;
  for (unsigned i = 0; i < count; ++i) {
    auto value = std::make_shared<RankTensors>();
    for (auto &results : byRank)
      value->push_back(std::move(results[i]));
    out.push_back(std::move(value));
  }
  return out;
}

static SmallVector<const HostTensor *> ofRank(ArrayRef<ValuePtr> values, unsigned rank) {
  SmallVector<const HostTensor *> out;
  for (const ValuePtr &v : values)
    out.push_back(&(*v)[rank]);
  return out;
}

std::vector<ValuePtr> Run::operandsOf(Operation *op, const Frame &frame) const {
  std::vector<ValuePtr> out;
  for (Value v : op->getOperands())
    out.push_back(frame.lookup(v));
  return out;
}

/// Checks the results of `op`, shows them to the observer and keeps them.
LogicalResult Run::bind(Operation *op, std::vector<ValuePtr> results, Frame &frame) {
  for (auto [i, value] : llvm::enumerate(results)) {
    FailureOr<ArrayRef<int64_t>> want = staticShape(op, op->getResult(i).getType());
    if (failed(want))
      return failure();
    for (auto [rank, tensor] : llvm::enumerate(*value)) {
      if (ArrayRef<int64_t>(tensor.shape) != *want)
        return op->emitError() << "result " << i << " of '" << op->getName() << "' has the shape ["
                               << ArrayRef<int64_t>(tensor.shape) << "] on rank " << rank
                               << " where its type says [" << *want << "]";
      if (!options.refuseNaN)
        continue;
      const auto *hole = llvm::find_if(tensor.data, [](double x) { return std::isnan(x); }).base();
      if (hole != tensor.data.data() + tensor.data.size())
        return op->emitError() << "result " << i << " of '" << op->getName()
                               << "' is not a number at element " << (hole - tensor.data.data())
                               << " on rank " << rank
                               << " (never written, or computed from such a value)";
    }
    frame[op->getResult(i)] = value;
  }
  if (options.observer) {
    SmallVector<const RankTensors *> shown;
    for (const ValuePtr &v : results)
      shown.push_back(v.get());
    options.observer(op, shown, iterations);
  }
  return success();
}

LogicalResult Run::compute(Operation *op, Frame &frame) {
  auto meaning = cast<InterpretableOpInterface>(op);
  std::vector<ValuePtr> operands = operandsOf(op, frame);
  SmallVector<SmallVector<HostTensor>> byRank;
  for (unsigned rank = 0; rank < options.ranks; ++rank) {
    FailureOr<SmallVector<HostTensor>> results = poisonedResults(op);
    if (failed(results))
      return failure();
    if (failed(meaning.interpret(ofRank(operands, rank), *results)))
      return op->emitError() << "'" << op->getName() << "' could not be interpreted on rank "
                             << rank;
    byRank.push_back(std::move(*results));
  }
  return bind(op, byResult(byRank, op->getNumResults()), frame);
}

LogicalResult Run::exchange(CollectiveOpInterface op, Frame &frame) {
  std::vector<ValuePtr> operands = operandsOf(op, frame);
  SmallVector<SmallVector<const HostTensor *>> in;
  SmallVector<SmallVector<HostTensor>> out;
  for (unsigned rank = 0; rank < options.ranks; ++rank) {
    FailureOr<SmallVector<HostTensor>> results = poisonedResults(op);
    if (failed(results))
      return failure();
    in.push_back(ofRank(operands, rank));
    out.push_back(std::move(*results));
  }
  if (failed(op.interpretRanks(in, out)))
    return op->emitError() << "'" << op->getName() << "' could not be interpreted on "
                           << options.ranks << " ranks";
  return bind(op, byResult(out, op->getNumResults()), frame);
}

LogicalResult Run::sumStages(StageExchangeOpInterface op, Frame &frame) {
  if (!options.sumOverStages)
    return op->emitError() << "'" << op->getName()
                           << "' adds up stages of a pipeline, of which only one is interpreted";
  auto sum = options.sumOverStages(op.getStageRanks(), *frame.lookup(op->getOperand(0)));
  if (failed(sum))
    return op->emitError() << "'" << op->getName() << "' is not met by the other stages";
  return bind(op, {std::make_shared<RankTensors>(std::move(*sum))}, frame);
}

LogicalResult Run::access(StateOpInterface op, Frame &frame) {
  std::string symbol = op.getStateName(iteration);
  StringRef slot = op.getStateSlot();
  auto rows = op.getStateRows();
  int64_t begin = rows ? rows->begin + rows->step * iteration : 0;
  auto sizeOf = [](Value v) { return cast<RankedTensorType>(v.getType()).getDimSize(0); };
  switch (op.getStateAccess()) {
  case StateAccess::Read: {
    const RankTensors *tensors = state.find(symbol, slot);
    if (!tensors)
      return op->emitError() << "'" << op->getName() << "' reads '" << slot << "' of @" << symbol
                             << ", which nothing has stored";
    if (tensors->size() != options.ranks)
      return op->emitError() << "'" << slot << "' of @" << symbol << " is stored for "
                             << tensors->size() << " ranks, not for " << options.ranks;
    if (!rows)
      return bind(op, {std::make_shared<RankTensors>(*tensors)}, frame);
    auto part = takeRows(*tensors, begin, sizeOf(op->getResult(0)));
    return bind(op, {std::make_shared<RankTensors>(std::move(part))}, frame);
  }
  case StateAccess::Write:
    if (rows)
      return op->emitError() << "'" << op->getName() << "' replaces some rows alone";
    state.set(symbol, slot, *frame.lookup(op->getOperand(0)));
    break;
  case StateAccess::Accumulate: {
    const RankTensors &value = *frame.lookup(op->getOperand(0));
    if (failed(state.accumulate(symbol, slot, rows ? spreadRows(value, begin, rows->all) : value)))
      return op->emitError() << "'" << op->getName() << "' adds to '" << slot << "' of @" << symbol
                             << ", which has another shape or number of ranks";
    break;
  }
  }
  return bind(op, {}, frame);
}

LogicalResult Run::enter(CallOpInterface op, Frame &frame) {
  auto callee = dyn_cast_or_null<FunctionOpInterface>(op.resolveCallable());
  if (!callee || callee.isExternal())
    return op->emitError() << "'" << op->getName() << "' calls a function without a body";
  std::vector<ValuePtr> arguments;
  for (Value v : op.getArgOperands())
    arguments.push_back(frame.lookup(v));
  FailureOr<std::vector<ValuePtr>> results = call(callee, arguments);
  if (failed(results))
    return failure();
  return bind(op, std::move(*results), frame);
}

/// Visits the elements of slice `index` of a tensor of shape `whole`: positions in
/// the slice and in the whole.
static void forSlice(ArrayRef<int64_t> whole, ArrayRef<Slicing> slicing, int64_t index,
                     function_ref<void(int64_t, int64_t)> visit) {
  // Along each dimension, where each index of the slice lies in the whole.
  SmallVector<SmallVector<int64_t>> places;
  for (int64_t size : whole) {
    places.emplace_back();
    for (int64_t i = 0; i < size; ++i)
      places.back().push_back(i);
  }
  for (const Slicing &s : llvm::reverse(slicing)) {
    int64_t piece = index % s.pieces, part = whole[s.dim] / (s.pieces * s.blocks);
    index /= s.pieces;
    llvm::erase_if(places[s.dim], [&](int64_t i) { return i / part % s.pieces != piece; });
  }
  int64_t at = 0;
  std::function<void(size_t, int64_t)> visitFrom = [&](size_t dim, int64_t base) {
    if (dim == whole.size())
      return visit(at++, base);
    for (int64_t i : places[dim])
      visitFrom(dim + 1, base * whole[dim] + i);
  };
  visitFrom(0, 0);
}

LogicalResult Run::repeat(RepeatOpInterface op, Frame &frame) {
  Block &block = op.getRepeatedBlock();
  Operation *end = block.getTerminator();
  unsigned carried = op.getNumCarried();
  std::vector<ValuePtr> values = operandsOf(op, frame);
  SmallVector<SmallVector<HostTensor>> stacked; // by rank
  for (unsigned rank = 0; rank < options.ranks; ++rank) {
    FailureOr<SmallVector<HostTensor>> results = poisonedResults(op);
    if (failed(results))
      return failure();
    stacked.push_back(std::move(*results));
  }
  auto slices = [&](ArrayRef<int64_t> whole, Type type,
                    function_ref<void(int64_t, int64_t)> visit) {
    forSlice(whole, op.getSlicing(type), op.getSliceIndex(iteration), visit);
  };
  int64_t outside = iteration;
  iterations.push_back({op, 0});
  for (iteration = 0; iteration < op.getIterations(); ++iteration) {
    iterations.back().number = iteration;
    for (auto [i, argument] : llvm::enumerate(block.getArguments())) {
      if (i < carried) {
        frame[argument] = values[i];
        continue;
      }
      FailureOr<ArrayRef<int64_t>> shape = staticShape(op, argument.getType());
      if (failed(shape))
        return failure();
      auto slice = std::make_shared<RankTensors>(options.ranks, HostTensor(*shape));
      for (auto [to, from] : llvm::zip(*slice, *values[i]))
        slices(from.shape, op->getOperand(i).getType(),
               [&](int64_t in, int64_t at) { to.data[in] = from.data[at]; });
      frame[argument] = slice;
    }
    for (Operation &inner : block.without_terminator())
      if (failed(step(&inner, frame)))
        return failure();
    std::vector<ValuePtr> yielded = operandsOf(end, frame);
    for (unsigned i = carried; i < yielded.size(); ++i)
      for (unsigned rank = 0; rank < options.ranks; ++rank) {
        HostTensor &to = stacked[rank][i];
        slices(to.shape, op->getResult(i).getType(),
               [&](int64_t in, int64_t at) { to.data[at] = (*yielded[i])[rank].data[in]; });
      }
    std::copy_n(yielded.begin(), carried, values.begin());
  }
  iteration = outside;
  iterations.pop_back();
  std::vector<ValuePtr> results = byResult(stacked, op->getNumResults());
  std::copy_n(values.begin(), carried, results.begin());
  return bind(op, std::move(results), frame);
}

LogicalResult Run::constant(Operation *op, Attribute value, Frame &frame) {
  FailureOr<HostTensor> tensor = failure();
  if (auto dense = dyn_cast<DenseElementsAttr>(value))
    tensor = toHostTensor(dense);
  else if (auto number = dyn_cast<FloatAttr>(value))
    tensor = HostTensor({}, number.getValueAsDouble());
  else if (auto integer = dyn_cast<IntegerAttr>(value))
    tensor = HostTensor({}, static_cast<double>(integer.getInt()));
  if (failed(tensor))
    return op->emitError() << "'" << op->getName() << "' holds no number or tensor of numbers";
  return bind(op, {std::make_shared<RankTensors>(options.ranks, *tensor)}, frame);
}

LogicalResult Run::step(Operation *op, Frame &frame) {
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return exchange(collective, frame);
  if (auto sum = dyn_cast<StageExchangeOpInterface>(op))
    return sumStages(sum, frame);
  if (isa<InterpretableOpInterface>(op))
    return compute(op, frame);
  if (auto stateful = dyn_cast<StateOpInterface>(op))
    return access(stateful, frame);
  if (auto callOp = dyn_cast<CallOpInterface>(op))
    return enter(callOp, frame);
  if (auto repeated = dyn_cast<RepeatOpInterface>(op))
    return repeat(repeated, frame);
  Attribute value;
  if (matchPattern(op, m_Constant(&value)))
    return constant(op, value, frame);
  return op->emitError() << "'" << op->getName()
                         << "' cannot be interpreted: it implements neither "
                            "InterpretableOpInterface nor CollectiveOpInterface nor "
                            "StateOpInterface nor RepeatOpInterface";
}

FailureOr<std::vector<ValuePtr>> Run::call(FunctionOpInterface function,
                                           ArrayRef<ValuePtr> arguments) {
  if (llvm::is_contained(stack, function.getOperation())) {
    function->emitError("cannot be interpreted: it calls itself");
    return failure();
  }
  if (!function.getFunctionBody().hasOneBlock()) {
    function->emitError("cannot be interpreted: it needs a body of one block");
    return failure();
  }
  stack.push_back(function);
  Frame frame;
  Block &body = function.getFunctionBody().front();
  for (auto [argument, value] : llvm::zip_equal(body.getArguments(), arguments))
    frame[argument] = value;
  for (Operation &op : body.without_terminator())
    if (failed(step(&op, frame)))
      return failure();
  stack.pop_back();
  return operandsOf(body.getTerminator(), frame);
}

FailureOr<std::vector<RankTensors>> cleave::interpret(FunctionOpInterface function,
                                                      ArrayRef<RankTensors> arguments,
                                                      StateStore &state,
                                                      const InterpreterOptions &options) {
  if (function.isExternal())
    return function->emitError("cannot be interpreted: it has no body");
  if (options.ranks == 0)
    return function->emitError("cannot be interpreted by no rank at all");
  if (arguments.size() != function.getNumArguments())
    return function->emitError() << "is called with " << arguments.size() << " arguments; it takes "
                                 << function.getNumArguments();
  std::vector<ValuePtr> shared;
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    FailureOr<ArrayRef<int64_t>> want = staticShape(function, function.getArgument(i).getType());
    if (failed(want))
      return failure();
    if (argument.size() != options.ranks)
      return function->emitError() << "argument " << i << " is given for " << argument.size()
                                   << " ranks, not for " << options.ranks;
    for (auto [rank, tensor] : llvm::enumerate(argument))
      if (ArrayRef<int64_t>(tensor.shape) != *want || tensor.size() != HostTensor::count(*want))
        return function->emitError()
               << "argument " << i << " has the shape [" << ArrayRef<int64_t>(tensor.shape)
               << "] on rank " << rank << " where its type says [" << *want << "]";
    shared.push_back(std::make_shared<RankTensors>(argument));
  }
  FailureOr<std::vector<ValuePtr>> results = Run(state, options).call(function, shared);
  if (failed(results))
    return failure();
  std::vector<RankTensors> out;
  for (const ValuePtr &value : *results)
    out.push_back(*value);
  return out;
}

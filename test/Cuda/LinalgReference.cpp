//===- LinalgReference.cpp - kernels in float64, op by op -----------------===//

#include "LinalgReference.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <cmath>
#include <functional>
#include <map>
#include <string>

using namespace mlir;

namespace cleave::test {

using Numbers = ArrayRef<double>;

static const std::map<std::string, std::function<double(Numbers)>> &scalarMeanings() {
  static const std::map<std::string, std::function<double(Numbers)>> all = {
      {"arith.addf", [](Numbers x) { return x[0] + x[1]; }},
      {"arith.subf", [](Numbers x) { return x[0] - x[1]; }},
      {"arith.mulf", [](Numbers x) { return x[0] * x[1]; }},
      {"arith.divf", [](Numbers x) { return x[0] / x[1]; }},
      {"arith.negf", [](Numbers x) { return -x[0]; }},
      {"arith.maximumf", [](Numbers x) { return std::isnan(x[0]) || x[0] > x[1] ? x[0] : x[1]; }},
      {"arith.minimumf", [](Numbers x) { return std::isnan(x[0]) || x[0] < x[1] ? x[0] : x[1]; }},
      {"arith.addi", [](Numbers x) { return x[0] + x[1]; }},
      {"arith.subi", [](Numbers x) { return x[0] - x[1]; }},
      {"arith.muli", [](Numbers x) { return x[0] * x[1]; }},
      {"arith.andi", [](Numbers x) { return double(int64_t(x[0]) & int64_t(x[1])); }},
      {"arith.ori", [](Numbers x) { return double(int64_t(x[0]) | int64_t(x[1])); }},
      {"arith.maxsi", [](Numbers x) { return std::max(x[0], x[1]); }},
      {"arith.minsi", [](Numbers x) { return std::min(x[0], x[1]); }},
      {"arith.select", [](Numbers x) { return x[0] != 0 ? x[1] : x[2]; }},
      {"arith.sitofp", [](Numbers x) { return x[0]; }},
      {"arith.index_cast", [](Numbers x) { return x[0]; }},
      {"arith.extf", [](Numbers x) { return x[0]; }},
      {"arith.truncf", [](Numbers x) { return x[0]; }},
      {"math.fma", [](Numbers x) { return std::fma(x[0], x[1], x[2]); }},
      {"math.exp", [](Numbers x) { return std::exp(x[0]); }},
      {"math.log", [](Numbers x) { return std::log(x[0]); }},
      {"math.sqrt", [](Numbers x) { return std::sqrt(x[0]); }},
      {"math.rsqrt", [](Numbers x) { return 1 / std::sqrt(x[0]); }},
      {"math.tanh", [](Numbers x) { return std::tanh(x[0]); }},
      {"math.erf", [](Numbers x) { return std::erf(x[0]); }},
      {"math.absf", [](Numbers x) { return std::fabs(x[0]); }},
      {"math.roundeven", [](Numbers x) { return std::nearbyint(x[0]); }},
  };
  return all;
}

static FailureOr<double> compare(Operation &op, Numbers x) {
  if (auto integer = dyn_cast<arith::CmpIOp>(op)) {
    switch (integer.getPredicate()) {
    case arith::CmpIPredicate::eq:
      return x[0] == x[1];
    case arith::CmpIPredicate::ne:
      return x[0] != x[1];
    case arith::CmpIPredicate::slt:
      return x[0] < x[1];
    case arith::CmpIPredicate::sle:
      return x[0] <= x[1];
    case arith::CmpIPredicate::sgt:
      return x[0] > x[1];
    case arith::CmpIPredicate::sge:
      return x[0] >= x[1];
    default:
      return op.emitError("predicate unknown to the reference");
    }
  }
  switch (cast<arith::CmpFOp>(op).getPredicate()) {
  case arith::CmpFPredicate::OEQ:
    return x[0] == x[1];
  case arith::CmpFPredicate::OLT:
    return x[0] < x[1];
  case arith::CmpFPredicate::OLE:
    return x[0] <= x[1];
  case arith::CmpFPredicate::OGT:
    return x[0] > x[1];
  case arith::CmpFPredicate::OGE:
    return x[0] >= x[1];
  case arith::CmpFPredicate::UNE:
    return x[0] != x[1];
  case arith::CmpFPredicate::UNO:
    return std::isnan(x[0]) || std::isnan(x[1]);
  default:
    return op.emitError("predicate unknown to the reference");
  }
}

static double numberOf(Attribute value) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return number.getValueAsDouble();
  auto integer = cast<IntegerAttr>(value);
  return integer.getType().isInteger(1) ? double(!integer.getValue().isZero())
                                        : double(integer.getValue().getSExtValue());
}

static int64_t addressOf(ArrayRef<int64_t> shape, ArrayRef<int64_t> index) {
  int64_t address = 0;
  for (auto [extent, i] : llvm::zip_equal(shape, index))
    address = address * extent + i;
  return address;
}

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

namespace {
class Interpreter {
public:
  LogicalResult run(Operation &op);
  llvm::DenseMap<Value, Elements> tensors;
  llvm::DenseMap<Value, double> scalars; ///< outside of bodies

private:
  /// One op of a body with its operands and result as places in a list.
  struct Step {
    std::function<double(Numbers)> meaning;
    SmallVector<unsigned> operands;
    unsigned result = 0;
  };
  FailureOr<Step> stepOf(Operation &op, llvm::DenseMap<Value, unsigned> &places,
                         ArrayRef<int64_t> loops);
  LogicalResult runGeneric(linalg::GenericOp op);
};
} // namespace

/// What `op` does; `loops` are read when it runs.
FailureOr<Interpreter::Step> Interpreter::stepOf(Operation &op,
                                                 llvm::DenseMap<Value, unsigned> &places,
                                                 ArrayRef<int64_t> loops) {
  Step step;
  for (Value operand : op.getOperands()) {
    if (isa<RankedTensorType>(operand.getType()))
      continue;
    auto place = places.find(operand);
    if (place == places.end())
      return op.emitError("the reference knows no scalar from outside of a body");
    step.operands.push_back(place->second);
  }
  step.result = places.size();
  places[op.getResult(0)] = step.result;
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    step.meaning = [value = numberOf(constant.getValue())](Numbers) { return value; };
  } else if (auto index = dyn_cast<linalg::IndexOp>(op)) {
    step.meaning = [loop = loops.data() + index.getDim()](Numbers) { return double(*loop); };
  } else if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    const Elements &elements = tensors.find(extract.getTensor())->second;
    step.meaning = [&elements, shape = shapeOf(extract.getTensor())](Numbers x) {
      SmallVector<int64_t> index(x.begin(), x.end());
      return elements[addressOf(shape, index)];
    };
  } else if (isa<arith::CmpIOp, arith::CmpFOp>(op)) {
    if (failed(compare(op, {0, 0})))
      return failure();
    step.meaning = [&op](Numbers x) { return *compare(op, x); };
  } else if (auto meaning = scalarMeanings().find(op.getName().getStringRef().str());
             meaning != scalarMeanings().end()) {
    step.meaning = meaning->second;
  } else {
    return op.emitError("op unknown to the reference");
  }
  return step;
}

/// Strides of each loop in the elements of an operand, and where they begin.
static std::pair<int64_t, SmallVector<int64_t>> stridesOf(AffineMap map, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> loops(map.getNumDims(), 0), strides;
  int64_t origin = addressOf(shape, map.compose(loops));
  for (int64_t &loop : loops) {
    loop = 1;
    strides.push_back(addressOf(shape, map.compose(loops)) - origin);
    loop = 0;
  }
  return {origin, strides};
}

LogicalResult Interpreter::runGeneric(linalg::GenericOp op) {
  SmallVector<int64_t> ranges = op.getStaticLoopRanges(), loops(ranges.size(), 0);
  for (auto [result, init] : llvm::zip_equal(op->getResults(), op.getOutputs())) {
    Elements old = tensors.at(init);
    tensors[result] = std::move(old);
  }
  llvm::DenseMap<Value, unsigned> places;
  for (BlockArgument arg : op.getBody()->getArguments())
    places[arg] = arg.getArgNumber();
  std::vector<Step> steps;
  for (Operation &inner : op.getBody()->without_terminator()) {
    FailureOr<Step> step = stepOf(inner, places, loops);
    if (failed(step))
      return failure();
    steps.push_back(std::move(*step));
  }
  for (Value yielded : op.getBody()->getTerminator()->getOperands())
    if (!places.count(yielded))
      return op.emitError("the reference knows no scalar from outside of a body");
  unsigned inputs = op.getNumDpsInputs();
  std::vector<Elements *> operands;
  std::vector<std::pair<int64_t, SmallVector<int64_t>>> strides;
  for (auto [i, map] : llvm::enumerate(op.getIndexingMapsArray())) {
    Value tensor = i < inputs ? op->getOperand(i) : op->getResult(i - inputs);
    operands.push_back(&tensors.find(tensor)->second);
    strides.push_back(stridesOf(map, shapeOf(tensor)));
  }
  auto elementAt = [&](unsigned operand) -> double & {
    int64_t address = strides[operand].first;
    for (auto [stride, loop] : llvm::zip_equal(strides[operand].second, loops))
      address += stride * loop;
    return (*operands[operand])[address];
  };
  std::vector<double> values(places.size());
  SmallVector<double> arguments;
  int64_t total = 1;
  for (int64_t range : ranges)
    total *= range;
  for (int64_t at = 0; at < total; ++at) {
    int64_t rest = at;
    for (size_t dim = ranges.size(); dim-- > 0; rest /= ranges[dim])
      loops[dim] = rest % ranges[dim];
    for (unsigned i = 0; i < operands.size(); ++i)
      values[i] = elementAt(i);
    for (const Step &step : steps) {
      arguments.clear();
      for (unsigned place : step.operands)
        arguments.push_back(values[place]);
      values[step.result] = step.meaning(arguments);
    }
    for (auto [i, value] : llvm::enumerate(op.getBody()->getTerminator()->getOperands()))
      elementAt(inputs + i) = values[places.find(value)->second];
  }
  return success();
}

LogicalResult Interpreter::run(Operation &op) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return runGeneric(generic);
  if (op.getNumResults() != 1)
    return op.emitError("op unknown to the reference");
  Value result = op.getResult(0);
  auto type = dyn_cast<RankedTensorType>(result.getType());
  if (auto constant = dyn_cast<arith::ConstantOp>(op); constant && !type) {
    scalars[result] = numberOf(constant.getValue());
    return success();
  }
  if (!type)
    return op.emitError("op unknown to the reference");
  if (isa<tensor::EmptyOp>(op)) {
    tensors[result].assign(type.getNumElements(), std::nan(""));
    return success();
  }
  if (auto fill = dyn_cast<linalg::FillOp>(op)) {
    tensors[result].assign(type.getNumElements(), scalars.at(fill.value()));
    return success();
  }
  if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op)) {
    Elements same = tensors.at(op.getOperand(0));
    tensors[result] = std::move(same);
    return success();
  }
  return op.emitError("op unknown to the reference");
}

FailureOr<std::vector<Elements>> interpretKernel(func::FuncOp kernel,
                                                 const std::vector<Elements> &arguments) {
  Interpreter interpreter;
  for (auto [arg, elements] : llvm::zip_equal(kernel.getArguments(), arguments))
    interpreter.tensors[arg] = elements;
  Block &body = kernel.front();
  for (Operation &op : body.without_terminator())
    if (failed(interpreter.run(op)))
      return failure();
  std::vector<Elements> results;
  for (Value value : body.getTerminator()->getOperands())
    results.push_back(interpreter.tensors.at(value));
  return results;
}

} // namespace cleave::test

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
      {"arith.maximumf",
       [](Numbers x) { return std::isnan(x[0]) || x[0] > x[1] ? x[0] : x[1]; }},
      {"arith.minimumf",
       [](Numbers x) { return std::isnan(x[0]) || x[0] < x[1] ? x[0] : x[1]; }},
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
  llvm::DenseMap<Value, double> scalars;

private:
  LogicalResult runGeneric(linalg::GenericOp op);
  LogicalResult runScalar(Operation &op, ArrayRef<int64_t> loops);
};
} // namespace

LogicalResult Interpreter::runScalar(Operation &op, ArrayRef<int64_t> loops) {
  double &result = scalars[op.getResult(0)];
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    result = numberOf(constant.getValue());
    return success();
  }
  if (auto index = dyn_cast<linalg::IndexOp>(op)) {
    result = double(loops[index.getDim()]);
    return success();
  }
  SmallVector<double> operands;
  for (Value operand : op.getOperands())
    if (!isa<RankedTensorType>(operand.getType()))
      operands.push_back(scalars.at(operand));
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    SmallVector<int64_t> index(operands.begin(), operands.end());
    result =
        tensors.at(extract.getTensor())[addressOf(shapeOf(extract.getTensor()), index)];
    return success();
  }
  if (isa<arith::CmpIOp, arith::CmpFOp>(op)) {
    FailureOr<double> truth = compare(op, operands);
    if (failed(truth))
      return failure();
    scalars[op.getResult(0)] = *truth;
    return success();
  }
  auto meaning = scalarMeanings().find(op.getName().getStringRef().str());
  if (meaning == scalarMeanings().end())
    return op.emitError("op unknown to the reference");
  scalars[op.getResult(0)] = meaning->second(operands);
  return success();
}

LogicalResult Interpreter::runGeneric(linalg::GenericOp op) {
  SmallVector<int64_t> ranges = op.getStaticLoopRanges(), loops(ranges.size(), 0);
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (auto [result, init] : llvm::zip_equal(op->getResults(), op.getOutputs())) {
    Elements old = tensors.at(init);
    tensors[result] = std::move(old);
  }
  auto elementAt = [&](unsigned operand) -> double & {
    unsigned inputs = op.getNumDpsInputs();
    Value tensor = operand < inputs ? op->getOperand(operand) : op->getResult(operand - inputs);
    return tensors.find(tensor)->second[addressOf(shapeOf(tensor), maps[operand].compose(loops))];
  };
  int64_t total = 1;
  for (int64_t range : ranges)
    total *= range;
  for (int64_t step = 0; step < total; ++step) {
    int64_t rest = step;
    for (size_t dim = ranges.size(); dim-- > 0; rest /= ranges[dim])
      loops[dim] = rest % ranges[dim];
    for (auto [i, arg] : llvm::enumerate(op.getBody()->getArguments()))
      scalars[arg] = elementAt(i);
    for (Operation &inner : op.getBody()->without_terminator())
      if (failed(runScalar(inner, loops)))
        return failure();
    for (auto [i, value] : llvm::enumerate(op.getBody()->getTerminator()->getOperands()))
      elementAt(op.getNumDpsInputs() + i) = scalars.at(value);
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
  if (!type)
    return runScalar(op, {});
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

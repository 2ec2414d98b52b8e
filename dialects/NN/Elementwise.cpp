//===- Elementwise.cpp - Elementwise operators -----------------------------===//

#include "dialects/NN/NN.h"
#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::nn;

/// Every dimension of an operand is one of the result's.
static LogicalResult verifyElementwise(Operation *op) {
  for (Value v : op->getOperands())
    for (StringAttr n : dimNames(v))
      if (findDim(op->getResult(0).getType(), n) < 0)
        return op->emitOpError() << "has dimension '" << n.getValue()
                                 << "' in an operand but not in its result";
  return verifySizesByName(op);
}

/// Applies `scalar` to the operands, broadcast by name.
template <typename Op>
static LogicalResult interpretElementwise(Op op, ArrayRef<const HostTensor *> in, HostTensor &out) {
  SmallVector<SmallVector<int64_t>> strides;
  for (auto [v, tensor] : llvm::zip(op->getOperands(), in)) {
    SmallVector<int64_t> own = tensor->strides(), s;
    for (StringAttr n : dimNames(op->getResult(0))) {
      int d = findDim(v.getType(), n);
      s.push_back(d < 0 ? 0 : own[d]);
    }
    strides.push_back(s);
  }
  SmallVector<double> x(in.size());
  size_t position = 0;
  forEachIndex(out.shape, [&](ArrayRef<int64_t> i) {
    for (size_t k = 0; k < in.size(); ++k)
      x[k] = in[k]->data[linearIndex(i, strides[k])];
    out.data[position++] = op.scalar(x);
  });
  return success();
}

/// `gradient` summed down to `type`'s dimensions, if it has more.
static Value sumTo(OpBuilder &b, Location loc, Type type, Value gradient) {
  return gradient.getType() == type ? gradient : SumOp::create(b, loc, type, gradient).getResult();
}

using Groups = SmallVector<SmallVector<int>>;

/// The rule by names; groups of operands in which it is linear, and of those that make
/// it zero where they are zero.
static ShardingRule elementwiseRule(Operation *op, Groups linear, Groups zeros) {
  ShardingRule rule = ruleByNames(op);
  rule.linear = std::move(linear);
  rule.zeros = std::move(zeros);
  return rule;
}

#define ELEMENTWISE(OP, LINEAR, ZEROS)                                                             \
  LogicalResult OP::verify() { return verifyElementwise(*this); }                                  \
  ShardingRule OP::getShardingRule() { return elementwiseRule(*this, LINEAR, ZEROS); }             \
  LogicalResult OP::interpret(ArrayRef<const HostTensor *> in, MutableArrayRef<HostTensor> out) {  \
    return interpretElementwise(*this, in, out[0]);                                                \
  }

// Of a function that is 0 at 0, and of its gradient's operator.
static Groups none() { return {}; }
static Groups function() { return {{0}}; }
static Groups second() { return {{1}}; }
static Groups gradient() { return {{0, 1}, {1}}; }
// Of a gated unit that is 0 where its gate is.
static Groups gated() { return {{0, 1}, {0}}; }
static Groups third() { return {{2}}; }
static Groups gatedGradient() { return {{0, 1, 2}, {2}}; }
// Of sums and products.
static Groups together() { return {{0, 1}}; }
static Groups either() { return {{0}, {1}}; }
static Groups product() { return {{0, 1}, {0}, {1}}; }

ELEMENTWISE(AddOp, together(), together())
ELEMENTWISE(MulOp, either(), product())
ELEMENTWISE(SiluOp, none(), function())
ELEMENTWISE(SiluGradOp, second(), gradient())
ELEMENTWISE(SigmoidOp, none(), none())
ELEMENTWISE(SigmoidGradOp, second(), gradient())
ELEMENTWISE(GeluOp, none(), function())
ELEMENTWISE(GeluGradOp, second(), gradient())
ELEMENTWISE(SoftCapOp, none(), function())
ELEMENTWISE(SoftCapGradOp, second(), gradient())
ELEMENTWISE(ClampedGluOp, none(), gated())
ELEMENTWISE(ClampedGluGateGradOp, third(), gatedGradient())
ELEMENTWISE(ClampedGluUpGradOp, third(), gatedGradient())
ELEMENTWISE(ReluOp, none(), function())
ELEMENTWISE(ReluGradOp, second(), gradient())
#undef ELEMENTWISE

//===----------------------------------------------------------------------===//
// add, add_n, mul
//===----------------------------------------------------------------------===//

double AddOp::scalar(ArrayRef<double> x) { return x[0] + x[1]; }

SmallVector<Value> AddOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool> wanted) {
  SmallVector<Value> out(2);
  for (unsigned i = 0; i < 2; ++i)
    if (wanted[i])
      out[i] = sumTo(b, getLoc(), getOperand(i).getType(), g[0]);
  return out;
}

LogicalResult AddNOp::verify() {
  if (getTerms().empty())
    return emitOpError("needs at least one term");
  for (Type t : getOperandTypes())
    if (t != getType())
      return emitOpError("has a term of another type than its result");
  return success();
}

ShardingRule AddNOp::getShardingRule() {
  SmallVector<int> all;
  for (size_t i = 0; i < getTerms().size(); ++i)
    all.push_back(static_cast<int>(i));
  return elementwiseRule(*this, {all}, {all});
}

LogicalResult AddNOp::interpret(ArrayRef<const HostTensor *> in, MutableArrayRef<HostTensor> out) {
  return interpretElementwise(*this, in, out[0]);
}

double AddNOp::scalar(ArrayRef<double> x) {
  double sum = 0;
  for (double v : x)
    sum += v;
  return sum;
}

double MulOp::scalar(ArrayRef<double> x) { return x[0] * x[1]; }

SmallVector<Value> MulOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool> wanted) {
  SmallVector<Value> out(2);
  for (unsigned i = 0; i < 2; ++i)
    if (wanted[i]) {
      Value product = MulOp::create(b, getLoc(), getType(), g[0], getOperand(1 - i));
      out[i] = sumTo(b, getLoc(), getOperand(i).getType(), product);
    }
  return out;
}

//===----------------------------------------------------------------------===//
// cast
//===----------------------------------------------------------------------===//

LogicalResult CastOp::verify() {
  Type from = getInput().getType().getElementType(), to = getType().getElementType();
  if (!(from.isF32() && to.isBF16()) && !(from.isBF16() && to.isF32()))
    return emitOpError() << "needs f32 and bf16, one to the other, not " << from << " to " << to;
  if (withElement(getType(), from) != getInput().getType())
    return emitOpError("needs a result of its input's dimensions, in the same order");
  return success();
}

bool CastOp::isNarrowing() { return getType().getElementType().isBF16(); }

/// To f32 and back is nothing.
OpFoldResult CastOp::fold(FoldAdaptor) {
  auto before = getInput().getDefiningOp<CastOp>();
  return isNarrowing() && before && before.getInput().getType() == getType()
             ? OpFoldResult(before.getInput())
             : OpFoldResult();
}

ShardingRule CastOp::getShardingRule() {
  return elementwiseRule(*this, isNarrowing() ? none() : function(), function());
}

LogicalResult CastOp::interpret(ArrayRef<const HostTensor *> in, MutableArrayRef<HostTensor> out) {
  return interpretElementwise(*this, in, out[0]);
}

SmallVector<Value> CastOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool>) {
  return {CastOp::create(b, getLoc(), getInput().getType(), g[0])};
}

double CastOp::scalar(ArrayRef<double> x) {
  if (!isNarrowing())
    return x[0];
  APFloat number(x[0]);
  bool inexact;
  number.convert(APFloat::BFloat(), APFloat::rmNearestTiesToEven, &inexact);
  return number.convertToDouble();
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

static double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double SiluOp::scalar(ArrayRef<double> x) { return x[0] * sigmoid(x[0]); }

SmallVector<Value> SiluOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool>) {
  return {SiluGradOp::create(b, getLoc(), getType(), getInput(), g[0])};
}

double SiluGradOp::scalar(ArrayRef<double> x) {
  double s = sigmoid(x[0]);
  return x[1] * s * (1.0 + x[0] * (1.0 - s));
}

double SigmoidOp::scalar(ArrayRef<double> x) { return sigmoid(x[0]); }

SmallVector<Value> SigmoidOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool>) {
  return {SigmoidGradOp::create(b, getLoc(), getType(), getInput(), g[0])};
}

double SigmoidGradOp::scalar(ArrayRef<double> x) {
  double s = sigmoid(x[0]);
  return x[1] * s * (1.0 - s);
}

static constexpr double kSqrt2OverPi = 0.79788456080286535588;
static constexpr double kGeluCubic = 0.044715;

double GeluOp::scalar(ArrayRef<double> x) {
  if (!getTanh())
    return 0.5 * x[0] * std::erfc(-x[0] * M_SQRT1_2);
  return 0.5 * x[0] * (1.0 + std::tanh(kSqrt2OverPi * (x[0] + kGeluCubic * x[0] * x[0] * x[0])));
}

SmallVector<Value> GeluOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool>) {
  return {GeluGradOp::create(b, getLoc(), getType(), getInput(), g[0], getTanhAttr())};
}

double GeluGradOp::scalar(ArrayRef<double> x) {
  double v = x[0];
  if (!getTanh()) {
    double density = std::exp(-0.5 * v * v) / std::sqrt(2.0 * M_PI);
    return x[1] * (0.5 * std::erfc(-v * M_SQRT1_2) + v * density);
  }
  double t = std::tanh(kSqrt2OverPi * (v + kGeluCubic * v * v * v));
  double slope = kSqrt2OverPi * (1.0 + 3.0 * kGeluCubic * v * v);
  return x[1] * (0.5 * (1.0 + t) + 0.5 * v * (1.0 - t * t) * slope);
}

double SoftCapOp::scalar(ArrayRef<double> x) {
  double cap = getCap().convertToDouble();
  return cap * std::tanh(x[0] / cap);
}

SmallVector<Value> SoftCapOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool>) {
  return {SoftCapGradOp::create(b, getLoc(), getType(), getInput(), g[0], getCapAttr())};
}

double SoftCapGradOp::scalar(ArrayRef<double> x) {
  double t = std::tanh(x[0] / getCap().convertToDouble());
  return x[1] * (1.0 - t * t);
}

double ClampedGluOp::scalar(ArrayRef<double> x) {
  double limit = getLimit().convertToDouble(), g = std::min(x[0], limit);
  return (std::clamp(x[1], -limit, limit) + 1.0) * g * sigmoid(getAlpha().convertToDouble() * g);
}

SmallVector<Value> ClampedGluOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool> wanted) {
  SmallVector<Value> out(2);
  if (wanted[0])
    out[0] = ClampedGluGateGradOp::create(b, getLoc(), getType(), getGate(), getUp(), g[0],
                                          getAlphaAttr(), getLimitAttr());
  if (wanted[1])
    out[1] = ClampedGluUpGradOp::create(b, getLoc(), getType(), getGate(), getUp(), g[0],
                                        getAlphaAttr(), getLimitAttr());
  for (auto [value, operand] : llvm::zip(out, getOperands()))
    if (value)
      value = sumTo(b, getLoc(), operand.getType(), value);
  return out;
}

double ClampedGluGateGradOp::scalar(ArrayRef<double> x) {
  double limit = getLimit().convertToDouble(), alpha = getAlpha().convertToDouble();
  double s = sigmoid(alpha * x[0]);
  return x[0] > limit ? 0.0
                      : x[2] * (std::clamp(x[1], -limit, limit) + 1.0) * s *
                            (1.0 + alpha * x[0] * (1.0 - s));
}

double ClampedGluUpGradOp::scalar(ArrayRef<double> x) {
  double limit = getLimit().convertToDouble(), g = std::min(x[0], limit);
  return std::abs(x[1]) > limit ? 0.0 : x[2] * g * sigmoid(getAlpha().convertToDouble() * g);
}

double ReluOp::scalar(ArrayRef<double> x) { return x[0] > 0 ? x[0] : 0.0; }

SmallVector<Value> ReluOp::buildGradient(OpBuilder &b, ValueRange g, ArrayRef<bool>) {
  return {ReluGradOp::create(b, getLoc(), getType(), getInput(), g[0])};
}

double ReluGradOp::scalar(ArrayRef<double> x) { return x[0] > 0 ? x[1] : 0.0; }

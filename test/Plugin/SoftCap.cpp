//===- SoftCap.cpp - Operators that Cleave does not know --------------------===//
//
// Loaded into a tool, they are checked, differentiated, sharded and interpreted
// like ours: the passes only know the interfaces below.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "llvm/Config/llvm-config.h"
#include <algorithm>
#include <cmath>
#include <limits>

#include "test/Plugin/SoftCapDialect.h.inc"
#define GET_OP_CLASSES
#include "test/Plugin/SoftCap.h.inc"

using namespace mlir;
using namespace cleave;
using namespace ext;

#include "test/Plugin/SoftCapDialect.cpp.inc"

void ExtDialect::initialize() { addOperations<SoftCapOp, ScaleSumOp, RowMaxOp>(); }

//===----------------------------------------------------------------------===//
// SoftCapOp
//===----------------------------------------------------------------------===//

LogicalResult SoftCapOp::verify() {
  if (!(getCap().convertToDouble() > 0))
    return emitOpError("needs a cap above zero");
  return success();
}

ShardingRule SoftCapOp::getShardingRule() { return nn::ruleByNames(*this); }

LogicalResult SoftCapOp::interpret(ArrayRef<const HostTensor *> in,
                                   MutableArrayRef<HostTensor> out) {
  double cap = getCap().convertToDouble();
  for (int64_t i = 0; i < out[0].size(); ++i)
    out[0].data[i] = cap * std::tanh(in[0]->data[i] / cap);
  return success();
}

/// d/dx = 1 − tanh²(x / cap) = 1 − (y / cap)², of operators that are there.
SmallVector<Value> SoftCapOp::buildGradient(OpBuilder &b, ValueRange gradients, ArrayRef<bool>) {
  Location loc = getLoc();
  RankedTensorType type = getResult().getType();
  double cap = getCap().convertToDouble();
  auto scalar = [&](double value) -> Value {
    auto scalarType = RankedTensorType::get({}, type.getElementType());
    return nn::FillOp::create(b, loc, scalarType, b.getF64FloatAttr(value));
  };
  auto multiply = [&](Value x, Value y) -> Value { return nn::MulOp::create(b, loc, type, x, y); };
  Value square = multiply(multiply(getResult(), getResult()), scalar(-1 / (cap * cap)));
  Value slope = nn::AddOp::create(b, loc, type, square, scalar(1));
  return {multiply(gradients[0], slope)};
}

//===----------------------------------------------------------------------===//
// ScaleSumOp
//===----------------------------------------------------------------------===//

LogicalResult ScaleSumOp::verify() {
  for (StringAttr name : nn::dimNames(getResult()))
    if (nn::findDim(getInput().getType(), name.getValue()) < 0)
      return emitOpError() << "returns a dimension that it does not take: " << name;
  return nn::verifySizesByName(*this);
}

/// What is summed over may be cut: each rank then has a term of the sum.
ShardingRule ScaleSumOp::getShardingRule() {
  ShardingRule rule = nn::ruleByNames(*this);
  rule.linear = {{0}};
  return rule;
}

LogicalResult ScaleSumOp::interpret(ArrayRef<const HostTensor *> in,
                                    MutableArrayRef<HostTensor> out) {
  std::fill(out[0].data.begin(), out[0].data.end(), 0.0);
  auto strides = out[0].strides();
  SmallVector<int64_t> step; // of the result, for each dimension of the input
  for (StringAttr name : nn::dimNames(getInput())) {
    int d = nn::findDim(getResult().getType(), name.getValue());
    step.push_back(d < 0 ? 0 : strides[d]);
  }
  int64_t position = 0;
  forEachIndex(in[0]->shape, [&](ArrayRef<int64_t> i) {
    out[0].data[linearIndex(i, step)] += getScale().convertToDouble() * in[0]->data[position++];
  });
  return success();
}

/// Every element counts with `scale`: the gradient is spread over what was summed.
SmallVector<Value> ScaleSumOp::buildGradient(OpBuilder &b, ValueRange gradients, ArrayRef<bool>) {
  RankedTensorType type = getInput().getType();
  Value scale = nn::FillOp::create(b, getLoc(), type, getScaleAttr());
  return {nn::MulOp::create(b, getLoc(), type, scale, gradients[0])};
}

//===----------------------------------------------------------------------===//
// RowMaxOp: no gradient, and no local form for cut rows
//===----------------------------------------------------------------------===//

ShardingRule RowMaxOp::getShardingRule() {
  ShardingRule rule = nn::ruleByNames(*this);
  Factor &row = rule.factors[rule.operands[0].back()];
  row.reduction = ReductionKind::Max;
  row.neutral = -std::numeric_limits<double>::infinity();
  return rule;
}

LogicalResult RowMaxOp::interpret(ArrayRef<const HostTensor *> in,
                                  MutableArrayRef<HostTensor> out) {
  int64_t width = in[0]->shape.back();
  for (int64_t r = 0; r < out[0].size(); ++r)
    out[0].data[r] =
        *std::max_element(in[0]->data.begin() + r * width, in[0]->data.begin() + (r + 1) * width);
  return success();
}

#define GET_OP_CLASSES
#include "test/Plugin/SoftCap.cpp.inc"

extern "C" LLVM_ATTRIBUTE_WEAK DialectPluginLibraryInfo mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "ext", LLVM_VERSION_STRING,
          [](DialectRegistry *registry) { registry->insert<ExtDialect>(); }};
}

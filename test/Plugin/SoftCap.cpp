//===- SoftCap.cpp - An operator that Cleave does not know ------------------===//
//
// Loaded into a tool, it is checked, differentiated, sharded and interpreted
// like one of ours: the passes only know the interfaces below.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "llvm/Config/llvm-config.h"
#include <cmath>

#include "test/Plugin/SoftCapDialect.h.inc"
#define GET_OP_CLASSES
#include "test/Plugin/SoftCap.h.inc"

using namespace mlir;
using namespace cleave;
using namespace ext;

#include "test/Plugin/SoftCapDialect.cpp.inc"

void ExtDialect::initialize() { addOperations<SoftCapOp>(); }

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

#define GET_OP_CLASSES
#include "test/Plugin/SoftCap.cpp.inc"

extern "C" LLVM_ATTRIBUTE_WEAK DialectPluginLibraryInfo mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "ext", LLVM_VERSION_STRING,
          [](DialectRegistry *registry) { registry->insert<ExtDialect>(); }};
}

//===- BodyWork.cpp - What operators compute for an element ---------------------===//

#include "lib/CostModel/BodyWork.h"
#include "dialects/Interfaces/Interfaces.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
namespace cleave::cost {

/// What stands for a size that the graph leaves open: counts are divided by it again.
static constexpr int64_t kOpen = 64;

BodyCounter::BodyCounter(func::FuncOp function) {
  MLIRContext *context = function.getContext();
  context->loadDialect<arith::ArithDialect, linalg::LinalgDialect, math::MathDialect,
                       tensor::TensorDialect>();
  aside = ModuleOp::create(function.getLoc());
  aside->push_back(function->clone(copies));
}

static RankedTensorType fixed(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return {};
  SmallVector<int64_t> shape(tensor.getShape());
  for (int64_t &size : shape)
    if (ShapedType::isDynamic(size))
      size = kOpen;
  return RankedTensorType::get(shape, tensor.getElementType(), tensor.getEncoding());
}

/// Adds the loops of what `op` builds as a kernel's body, each count divided by `elements`.
static void count(ModuleOp aside, FusionOpInterface op, double elements,
                  std::vector<BodyLoop> &loops) {
  SmallVector<Type> arguments;
  SmallVector<RankedTensorType> results;
  for (Value operand : op->getOperands())
    arguments.push_back(fixed(operand.getType()));
  for (const BodyInput &input : op.getBodyInputs())
    arguments.push_back(input.type);
  for (Value result : op->getResults())
    results.push_back(fixed(result.getType()));
  if (llvm::is_contained(arguments, Type()) || llvm::is_contained(results, RankedTensorType()))
    return;
  OpBuilder builder = OpBuilder::atBlockEnd(aside.getBody());
  auto body =
      func::FuncOp::create(builder, op->getLoc(), "body", builder.getFunctionType(arguments, {}));
  Block *block = body.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  op.buildBody(builder, block->getArguments(), results);
  body.walk([&](linalg::GenericOp generic) {
    const SmallVector<int64_t> ranges = generic.getStaticLoopRanges();
    double iterations = 1;
    for (int64_t range : ranges)
      iterations *= static_cast<double>(ShapedType::isDynamic(range) ? kOpen : range);
    BodyLoop loop;
    loop.inner = ranges.empty() || ShapedType::isDynamic(ranges.back())
                     ? kOpen
                     : static_cast<double>(ranges.back());
    // Elements that follow each other in all tensors are one long row.
    if (llvm::all_of(generic.getIndexingMapsArray(),
                     [](AffineMap map) { return map.isIdentity(); }))
      loop.inner = iterations;
    for (Operation &inner : *generic.getBody())
      if (isa<arith::ArithDialect, math::MathDialect>(inner.getDialect()) &&
          !isa<arith::ConstantOp>(inner) && inner.getNumResults() == 1 &&
          isa<FloatType>(inner.getResult(0).getType()))
        loop.operations[inner.getName().getStringRef().str()] += iterations / elements;
    if (!loop.operations.empty())
      loops.push_back(std::move(loop));
  });
  body.erase();
}

static double elementsOf(Operation *op) {
  auto type = op->getNumResults() ? fixed(op->getResult(0).getType()) : RankedTensorType();
  return type ? static_cast<double>(type.getNumElements()) : 1;
}

std::vector<BodyLoop> BodyCounter::forward(Operation *op) {
  std::vector<BodyLoop> loops;
  if (auto fused = dyn_cast_or_null<FusionOpInterface>(copies.lookupOrNull(op)))
    count(*aside, fused, elementsOf(op), loops);
  return loops;
}

std::vector<BodyLoop> BodyCounter::backward(Operation *op) {
  std::vector<BodyLoop> loops;
  Operation *copy = copies.lookupOrNull(op);
  auto differentiable = dyn_cast_or_null<DifferentiableOpInterface>(copy);
  if (!differentiable)
    return loops;
  auto isFloat = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && isa<FloatType>(type.getElementType());
  };
  // Of the types of gradients, which is all that counts here, the results themselves are.
  SmallVector<Value> gradients;
  for (Value result : copy->getResults())
    gradients.push_back(isFloat(result) ? result : Value());
  SmallVector<bool> wanted;
  for (Value operand : copy->getOperands())
    wanted.push_back(isFloat(operand));
  Operation *last = &copy->getBlock()->back(), *before = last->getPrevNode();
  OpBuilder builder(last);
  differentiable.buildGradient(builder, gradients, wanted);
  for (Operation *made = before->getNextNode(); made != last; made = made->getNextNode())
    if (auto fused = dyn_cast<FusionOpInterface>(made))
      count(*aside, fused, elementsOf(op), loops);
  return loops;
}

} // namespace cleave::cost

//===- DifferentiateKinds.cpp - Joint graphs by reverse mode ---------------===//
//
// Walks a kind's operators backwards, asks each for the gradients of its
// operands and adds up what reaches a value by several ways. Which operator it
// is never matters.
//
//===----------------------------------------------------------------------===//

#include "cleave/Transforms/Autodiff/Passes.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_DIFFERENTIATEKINDSPASS
#include "lib/Transforms/Autodiff/Passes.h.inc"

namespace {
/// Reverse mode over the body of one joint function.
class Reverse {
public:
  Reverse(OpBuilder &builder, const llvm::DenseSet<Value> &active)
      : builder(builder), active(active) {}

  /// Adds `gradient` to what `value` has so far.
  void add(Value value, Value gradient, Location loc) {
    Value &sum = gradients[value];
    sum =
        sum ? nn::AddOp::create(builder, loc, sum.getType(), sum, gradient).getResult() : gradient;
  }
  Value lookup(Value value) const { return gradients.lookup(value); }

  LogicalResult through(Operation *op) {
    SmallVector<Value> results =
        llvm::map_to_vector(op->getResults(), [&](Value v) { return gradients.lookup(v); });
    SmallVector<bool> wanted =
        llvm::map_to_vector(op->getOperands(), [&](Value v) { return active.contains(v); });
    if (llvm::none_of(results, [](Value v) { return bool(v); }) ||
        llvm::none_of(wanted, [](bool w) { return w; }))
      return success();
    auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
    if (!differentiable)
      return op->emitOpError("depends on a trained parameter but has no gradient");
    SmallVector<Value> operands = differentiable.buildGradient(builder, results, wanted);
    for (auto [operand, gradient, want] : llvm::zip(op->getOperands(), operands, wanted))
      if (want && gradient)
        add(operand, gradient, op->getLoc());
    return success();
  }

private:
  OpBuilder &builder;
  const llvm::DenseSet<Value> &active;
  llvm::DenseMap<Value, Value> gradients;
};
} // namespace

/// The values of `function` that depend on its active arguments.
static llvm::DenseSet<Value> activeValues(func::FuncOp function, ArrayRef<bool> arguments) {
  llvm::DenseSet<Value> active;
  for (auto [argument, on] :
       llvm::zip(function.getArguments().take_front(arguments.size()), arguments))
    if (on)
      active.insert(argument);
  for (Operation &op : function.getBody().getOps())
    if (llvm::any_of(op.getOperands(), [&](Value v) { return active.contains(v); }))
      for (Value v : op.getResults())
        if (isa<FloatType>(getElementTypeOrSelf(v)))
          active.insert(v);
  return active;
}

static SmallVector<int64_t> positions(ArrayRef<bool> flags) {
  SmallVector<int64_t> out;
  for (auto [i, on] : llvm::enumerate(flags))
    if (on)
      out.push_back(static_cast<int64_t>(i));
  return out;
}

FailureOr<unsigned> differentiateKind(func::FuncOp kind, const Activity &activity) {
  if (kind.isExternal() || !kind.getBody().hasOneBlock())
    return kind.emitOpError("is a kind of layer that needs a body of one block");
  OpBuilder builder(kind);
  builder.setInsertionPointAfter(kind);
  auto joint = cast<func::FuncOp>(builder.clone(*kind));
  joint.setName((kind.getName() + ".joint").str());
  joint->removeAttr("nn.kind");
  joint->setAttr("nn.joint", FlatSymbolRefAttr::get(kind));
  auto results = positions(activity.results), arguments = positions(activity.arguments);
  joint->setAttr("nn.joint.results", builder.getDenseI64ArrayAttr(results));
  joint->setAttr("nn.joint.arguments", builder.getDenseI64ArrayAttr(arguments));

  Block &body = joint.getBody().front();
  auto end = cast<func::ReturnOp>(body.getTerminator());
  SmallVector<Operation *> forward;
  for (Operation &op : body.without_terminator())
    forward.push_back(&op);
  auto active = activeValues(joint, activity.arguments);
  builder.setInsertionPoint(end);
  Reverse reverse(builder, active);
  for (int64_t r : results) {
    Value result = end.getOperand(r);
    reverse.add(result, body.addArgument(result.getType(), result.getLoc()), result.getLoc());
  }

  unsigned built = 0;
  for (Operation *op : llvm::reverse(forward)) {
    Operation *before = end->getPrevNode();
    if (failed(reverse.through(op))) {
      joint.erase();
      return failure();
    }
    for (Operation *made = before->getNextNode(); made != end; made = made->getNextNode(), ++built)
      if (Attribute path = op->getAttr("nn.path"); path && !made->hasAttr("nn.path"))
        made->setAttr("nn.path", path);
  }

  SmallVector<Value> returned(end.getOperands());
  for (int64_t a : arguments) {
    Value argument = joint.getArgument(a), gradient = reverse.lookup(argument);
    if (!gradient)
      gradient = nn::FillOp::create(builder, argument.getLoc(), argument.getType(),
                                    builder.getF64FloatAttr(0.0));
    returned.push_back(gradient);
  }
  end->setOperands(returned);
  SmallVector<Type> inputs(body.getArgumentTypes());
  auto type = builder.getFunctionType(inputs, end.getOperandTypes());
  SmallVector<Attribute> argumentAttrs, resultAttrs;
  for (unsigned i = 0; i < inputs.size(); ++i)
    argumentAttrs.push_back(i < kind.getNumArguments() ? DictionaryAttr(kind.getArgAttrDict(i))
                                                       : builder.getDictionaryAttr({}));
  for (Attribute &a : argumentAttrs)
    a = a ? a : builder.getDictionaryAttr({});
  joint.setFunctionType(type);
  joint.setArgAttrsAttr(builder.getArrayAttr(argumentAttrs));
  joint.removeResAttrsAttr();
  return built;
}

namespace {
struct DifferentiateKindsPass : impl::DifferentiateKindsPassBase<DifferentiateKindsPass> {
  void runOnOperation() override {
    auto found = analyzeActivity(getOperation());
    if (failed(found))
      return signalPassFailure();
    llvm::StringMap<Activity> &kinds = *found;
    SymbolTable symbols(getOperation());
    for (auto function : llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
      if (!function->hasAttr("nn.kind") || !kinds.contains(function.getName()) ||
          symbols.lookup((function.getName() + ".joint").str()))
        continue;
      auto built = differentiateKind(function, kinds[function.getName()]);
      if (failed(built))
        return signalPassFailure();
      numBackward += *built;
    }
  }
};
} // namespace

} // namespace cleave

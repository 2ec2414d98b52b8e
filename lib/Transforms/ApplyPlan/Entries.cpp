//===- Entries.cpp - The functions that a step runs ------------------------===//

#include "lib/Transforms/ApplyPlan/Entries.h"
#include "dialects/NN/NN.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
namespace cleave {

namespace {
class EntryBuilder {
public:
  EntryBuilder(ModuleOp module, llvm::StringMap<SplitKind> &kinds,
               const OptimizerSettings &optimizer)
      : module(module), kinds(kinds), optimizer(optimizer), b(module.getContext()),
        forward(module.lookupSymbol<func::FuncOp>("forward")), loc(forward.getLoc()),
        scalar(RankedTensorType::get({}, b.getF32Type())) {}

  void build() {
    b.setInsertionPointToStart(module.getBody());
    for (StringRef name : {"step.valid", "step.scale", "step.loss"})
      nn::ScalarOp::create(b, loc, name);
    count();
    prepare();
    microbatch();
    update();
    evaluate();
  }

private:
  /// Starts an entry; the insertion point moves into it.
  Block *entry(StringRef name, TypeRange inputs, ArrayRef<StringRef> names, TypeRange results) {
    b.setInsertionPointToEnd(module.getBody());
    auto f = func::FuncOp::create(b, loc, name, b.getFunctionType(inputs, results));
    f->setAttr("nn.entry", b.getStringAttr(name));
    Block *body = f.addEntryBlock();
    for (auto [i, n] : llvm::enumerate(names))
      f.setArgAttr(i, "nn.name", b.getStringAttr(n));
    b.setInsertionPointToStart(body);
    return body;
  }
  void end(ValueRange values = {}) { func::ReturnOp::create(b, loc, values); }

  Value load(StringRef symbol, nn::Slot slot, Type type) {
    return nn::LoadOp::create(b, loc, type, symbol, slot);
  }
  Value loadScalar(StringRef symbol) { return load(symbol, nn::Slot::Value, scalar); }
  void accumulate(Value value, StringRef symbol, nn::Slot slot = nn::Slot::Value) {
    nn::AccumulateOp::create(b, loc, value, symbol, slot);
  }
  Value constant(Type type, double value) {
    return nn::FillOp::create(b, loc, type, b.getF64FloatAttr(value));
  }

  void count() {
    Block *body = entry("count", forward.getArgumentTypes()[1], {"targets"}, {});
    accumulate(nn::CountValidOp::create(b, loc, scalar, body->getArgument(0)), "step.valid");
    end();
  }

  void prepare() {
    entry("prepare", {}, {}, {scalar});
    Value valid = loadScalar("step.valid");
    Value scale = nn::ReciprocalOp::create(b, loc, scalar, valid);
    nn::StoreOp::create(b, loc, scale, "step.scale", nn::Slot::Value);
    end({valid});
  }

  /// The entry's inputs: forward's without the scale.
  Block *tokenEntry(StringRef name, TypeRange results) {
    return entry(name, TypeRange(forward.getArgumentTypes()).take_front(3),
                 {"tokens", "targets", "positions"}, results);
  }

  struct Call {
    func::CallOp original, made;
    SplitKind *kind;
  };

  /// Clones `@forward` with its calls going to forward halves; returns the loss.
  Value forwardCalls(Block *body, Value scale, SmallVectorImpl<Call> &tape) {
    Block &from = forward.getBody().front();
    map = IRMapping();
    map.map(from.getArguments().take_front(3), body->getArguments());
    map.map(from.getArgument(3), scale);
    for (Operation &op : from.without_terminator()) {
      auto call = dyn_cast<func::CallOp>(op);
      if (!call || !kinds.contains(call.getCallee())) {
        b.clone(op, map);
        continue;
      }
      SplitKind &kind = kinds[call.getCallee()];
      SmallVector<Value> operands =
          llvm::map_to_vector(call.getOperands(), [&](Value v) { return map.lookup(v); });
      auto made = func::CallOp::create(b, call.getLoc(), kind.forward, operands);
      if (Attribute layer = call->getAttr("nn.layer"))
        made->setAttr("nn.layer", layer);
      map.map(call.getResults(), made.getResults().take_front(call.getNumResults()));
      tape.push_back({call, made, &kind});
    }
    return map.lookup(from.getTerminator()->getOperand(0));
  }

  void microbatch() {
    Block *body = tokenEntry("microbatch", {});
    SmallVector<Call> tape;
    Value loss = forwardCalls(body, loadScalar("step.scale"), tape);
    accumulate(loss, "step.loss");
    llvm::DenseMap<Value, Value> gradients;
    gradients[loss] = constant(loss.getType(), 1.0);
    for (Call &call : llvm::reverse(tape))
      backwardCall(call, gradients);
    end();
  }

  void backwardCall(Call &call, llvm::DenseMap<Value, Value> &gradients) {
    SplitKind &kind = *call.kind;
    SmallVector<Value> inputs;
    for (BackwardInput input : kind.inputs)
      inputs.push_back(input.source == BackwardInput::Argument ? call.made.getOperand(input.index)
                       : input.source == BackwardInput::Result
                           ? call.made.getResult(input.index)
                           : call.made.getResult(kind.results + input.index));
    for (int64_t r : kind.activeResults) {
      Value result = call.made.getResult(r), gradient = gradients.lookup(result);
      inputs.push_back(gradient ? gradient : constant(result.getType(), 0.0));
    }
    auto made = func::CallOp::create(b, call.original.getLoc(), kind.backward, inputs);
    if (Attribute layer = call.original->getAttr("nn.layer"))
      made->setAttr("nn.layer", layer);
    for (auto [a, gradient] : llvm::zip(kind.activeArguments, made.getResults())) {
      Value operand = call.made.getOperand(a);
      if (auto source = operand.getDefiningOp<nn::LoadOp>()) {
        accumulate(gradient, source.getParameter(), nn::Slot::Gradient);
        continue;
      }
      Value &sum = gradients[operand];
      sum = sum ? Value(nn::AddOp::create(b, loc, sum.getType(), sum, gradient)) : gradient;
    }
  }

  void update() {
    Block *body = entry("update", {scalar, scalar, scalar}, {"rate", "correction1", "correction2"},
                        {scalar, scalar});
    SmallVector<nn::ParameterOp> parameters(module.getOps<nn::ParameterOp>());
    SmallVector<Value> gradients, squares;
    for (nn::ParameterOp p : parameters) {
      gradients.push_back(load(p.getSymName(), nn::Slot::Gradient, p.getTensorType()));
      squares.push_back(nn::SumSquaresOp::create(b, loc, scalar, gradients.back()));
    }
    Value total = nn::AddNOp::create(b, loc, scalar, squares);
    auto clip = optimizer.clipNorm ? b.getF64FloatAttr(*optimizer.clipNorm) : FloatAttr();
    auto norm = nn::ClipScaleOp::create(b, loc, scalar, scalar, total, clip);
    for (auto [p, gradient] : llvm::zip(parameters, gradients))
      step(p, gradient, norm.getScale(), body->getArguments());
    end({loadScalar("step.loss"), norm.getNorm()});
  }

  void step(nn::ParameterOp p, Value gradient, Value scale, ValueRange rates) {
    Type type = p.getTensorType();
    SmallVector<Value> old;
    const nn::Slot slots[] = {nn::Slot::Value, nn::Slot::Moment1, nn::Slot::Moment2};
    for (nn::Slot slot : slots)
      old.push_back(load(p.getSymName(), slot, type));
    auto f = [&](double x) { return b.getF64FloatAttr(x); };
    auto made =
        nn::AdamWOp::create(b, loc, type, type, type, old[0], gradient, old[1], old[2], scale,
                            rates[0], rates[1], rates[2], f(optimizer.beta1), f(optimizer.beta2),
                            f(optimizer.eps), f(p.getDecay() ? optimizer.weightDecay : 0.0));
    for (auto [slot, value] : llvm::zip(slots, made.getResults()))
      nn::StoreOp::create(b, loc, value, p.getSymName(), slot);
  }

  void evaluate() {
    Block *body = tokenEntry("evaluate", {scalar});
    SmallVector<Call> tape;
    accumulate(forwardCalls(body, loadScalar("step.scale"), tape), "step.loss");
    end({loadScalar("step.loss")});
  }

  ModuleOp module;
  llvm::StringMap<SplitKind> &kinds;
  const OptimizerSettings &optimizer;
  OpBuilder b;
  func::FuncOp forward;
  Location loc;
  RankedTensorType scalar;
  IRMapping map;
};
} // namespace

void buildEntries(ModuleOp module, llvm::StringMap<SplitKind> &kinds,
                  const OptimizerSettings &optimizer) {
  EntryBuilder(module, kinds, optimizer).build();
}

} // namespace cleave

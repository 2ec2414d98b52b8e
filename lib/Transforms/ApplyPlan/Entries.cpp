//===- Entries.cpp - The functions that a step runs ------------------------===//

#include "lib/Transforms/ApplyPlan/Entries.h"
#include "dialects/Dist/Dist.h"
#include "lib/Transforms/ApplyPlan/Passage.h"
#include "mlir/IR/Builders.h"

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
    for (StringRef name : {"step.valid", "step.scale", "step.loss", "step.squares"})
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
    return nn::LoadOp::create(b, loc, type, symbol, slot, DenseI64ArrayAttr());
  }
  Value loadScalar(StringRef symbol) { return load(symbol, nn::Slot::Value, scalar); }
  void accumulate(Value value, StringRef symbol, nn::Slot slot = nn::Slot::Value) {
    nn::AccumulateOp::create(b, loc, value, symbol, slot, DenseI64ArrayAttr());
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
    nn::StoreOp::create(b, loc, scale, "step.scale", nn::Slot::Value, DenseI64ArrayAttr());
    end({valid});
  }

  /// The entry's inputs: forward's without the scale.
  Block *tokenEntry(StringRef name, TypeRange results) {
    return entry(name, TypeRange(forward.getArgumentTypes()).take_front(3),
                 {"tokens", "targets", "positions"}, results);
  }

  /// The forward pass on an entry's inputs, which adds to the loss.
  void pass(Passage &passage, Block *body) {
    SmallVector<Value> arguments(body->getArguments());
    arguments.push_back(loadScalar("step.scale"));
    passage.forward(forward.getBody().front(), arguments, "step.loss");
  }

  void microbatch() {
    Passage passage(b, kinds, /*record=*/true);
    pass(passage, tokenEntry("microbatch", {}));
    passage.backward();
    end();
  }

  void evaluate() {
    Passage passage(b, kinds, /*record=*/false);
    pass(passage, tokenEntry("evaluate", {scalar}));
    end({loadScalar("step.loss")});
  }

  /// Calls `each` for every parameter; once for those of all layers, in a repeat.
  void forParameters(function_ref<void(nn::ParameterOp)> each) {
    llvm::MapVector<Attribute, SmallVector<nn::ParameterOp>> byLayers;
    for (auto p : module.getOps<nn::ParameterOp>())
      byLayers[p.getLayersAttr()].push_back(p);
    for (auto &[layers, parameters] : byLayers) {
      OpBuilder::InsertionGuard guard(b);
      if (layers) {
        auto range = cast<DenseI64ArrayAttr>(layers);
        auto repeat = nn::RepeatOp::create(
            b, loc, TypeRange(), TypeRange(), b.getI64IntegerAttr(range[1]), ArrayAttr(),
            DenseI64ArrayAttr(), DenseI64ArrayAttr(), UnitAttr(),
            b.getDenseI64ArrayAttr({range[0], range[2]}), ValueRange(), ValueRange());
        b.createBlock(&repeat.getBody());
        nn::YieldOp::create(b, loc, ValueRange());
        b.setInsertionPointToStart(&repeat.getBody().front());
      }
      for (nn::ParameterOp p : parameters)
        each(p);
    }
  }

  void update() {
    Block *body = entry("update", {scalar, scalar, scalar}, {"rate", "correction1", "correction2"},
                        {scalar, scalar});
    // Here the ranks add up their gradients, once: both passes read the sums.
    forParameters([&](nn::ParameterOp p) {
      Type type = p.getTensorType();
      nn::StoreOp::create(b, loc, load(p.getSymName(), nn::Slot::Gradient, type), p.getSymName(),
                          nn::Slot::Reduced, DenseI64ArrayAttr());
      Value gradient = load(p.getSymName(), nn::Slot::Reduced, type);
      accumulate(nn::SumSquaresOp::create(b, loc, scalar, gradient), "step.squares");
    });
    auto clip = optimizer.clipNorm ? b.getF64FloatAttr(*optimizer.clipNorm) : FloatAttr();
    auto norm = nn::ClipScaleOp::create(b, loc, scalar, scalar, loadScalar("step.squares"), clip);
    forParameters([&](nn::ParameterOp p) { step(p, norm.getScale(), body->getArguments()); });
    end({loadScalar("step.loss"), norm.getNorm()});
  }

  void step(nn::ParameterOp p, Value scale, ValueRange rates) {
    Type type = p.getTensorType();
    Value gradient = load(p.getSymName(), nn::Slot::Reduced, type);
    SmallVector<Value> old;
    const nn::Slot slots[] = {nn::Slot::Value, nn::Slot::Moment1, nn::Slot::Moment2};
    for (nn::Slot slot : slots)
      old.push_back(load(p.getSymName(), slot, type));
    auto f = [&](double x) { return b.getF64FloatAttr(x); };
    auto made =
        nn::AdamWOp::create(b, loc, type, type, type, old[0], gradient, old[1], old[2], scale,
                            rates[0], rates[1], rates[2], f(optimizer.beta1), f(optimizer.beta2),
                            f(optimizer.eps), f(p.getDecay() ? optimizer.weightDecay : 0.0));
    made->setAttr("dist.factors", factorsOf(p));
    for (auto [slot, value] : llvm::zip(slots, made.getResults()))
      nn::StoreOp::create(b, loc, value, p.getSymName(), slot, DenseI64ArrayAttr());
  }

  /// The update of a parameter is cut as its moments are.
  DictionaryAttr factorsOf(nn::ParameterOp p) {
    NamedAttrList factors;
    if (auto sharding = p->getAttrOfType<dist::ShardingAttr>("dist.moment1"))
      for (auto [d, name] : llvm::enumerate(nn::dimNames(p.getTensorType()))) {
        SmallVector<Attribute> axes;
        llvm::append_range(axes, sharding.axes(d));
        factors.set(name, b.getArrayAttr(axes));
      }
    return factors.getDictionary(b.getContext());
  }

  ModuleOp module;
  llvm::StringMap<SplitKind> &kinds;
  const OptimizerSettings &optimizer;
  OpBuilder b;
  func::FuncOp forward;
  Location loc;
  RankedTensorType scalar;
};
} // namespace

void buildEntries(ModuleOp module, llvm::StringMap<SplitKind> &kinds,
                  const OptimizerSettings &optimizer) {
  EntryBuilder(module, kinds, optimizer).build();
}

} // namespace cleave

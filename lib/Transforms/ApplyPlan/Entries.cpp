//===- Entries.cpp - The functions that a step runs ------------------------===//

#include "lib/Transforms/ApplyPlan/Entries.h"
#include "dialects/Dist/Dist.h"
#include "lib/Transforms/ApplyPlan/Parts.h"
#include "lib/Transforms/ApplyPlan/Passage.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
namespace cleave {

namespace {
class EntryBuilder {
public:
  EntryBuilder(ModuleOp module, llvm::StringMap<SplitKind> &kinds,
               const OptimizerSettings &optimizer, int64_t microBatches)
      : module(module), kinds(kinds), optimizer(optimizer), microBatches(microBatches),
        b(module.getContext()), stages(stagesOf(module)),
        forward(stages.empty() ? module.lookupSymbol<func::FuncOp>("forward") : stages.front()),
        loc(forward.getLoc()), scalar(RankedTensorType::get({}, b.getF32Type())) {}

  void build() {
    b.setInsertionPointToStart(module.getBody());
    for (StringRef name : {"step.valid", "step.scale", "step.loss", "step.squares"})
      nn::AccumulatorOp::create(b, loc, name, scalar);
    if (hasTerms())
      nn::AccumulatorOp::create(b, loc, "step.terms", scalar);
    declareSums();
    count();
    if (stages.empty() && !sums.empty())
      survey(forward);
    for (func::FuncOp stage : stages)
      if (numberOf(stage) < surveyedStages())
        survey(stage);
    prepare();
    if (stages.empty())
      microbatch();
    for (func::FuncOp stage : stages)
      passes(stage);
    sumInLast();
    update();
    if (stages.empty())
      evaluate();
    else
      finishEvaluation();
  }

private:
  /// Whether more than the loss is minimised.
  bool hasTerms() {
    return stages.empty() ? forward.getNumResults() > 1 : module->hasAttr("pipe.terms");
  }

  static int64_t numberOf(func::FuncOp stage) {
    return stage->getAttrOfType<IntegerAttr>("nn.stage").getInt();
  }

  /// How many of the first stages it takes to know all sums over the whole batch.
  int64_t surveyedStages() {
    auto count = module->getAttrOfType<IntegerAttr>("pipe.surveyed");
    return count && microBatches > 1 ? count.getInt() : 0;
  }

  /// Where there are several micro-batches, what they add up is kept.
  void declareSums() {
    SmallVector<func::FuncOp> passes(stages);
    if (stages.empty())
      passes.push_back(forward);
    for (func::FuncOp pass : passes)
      for (WholeBatchOpInterface op : batchSumsIn(pass.getBody().front()))
        if (microBatches > 1) {
          std::string name = "step.sum." + std::to_string(sums.size());
          nn::AccumulatorOp::create(b, op->getLoc(), name,
                                    cast<RankedTensorType>(op.getTotal().getType()));
          sums[op] = std::move(name);
        }
  }

  /// Starts an entry; the insertion point moves into it.
  Block *entry(const Twine &called, TypeRange inputs, ArrayRef<StringRef> names,
               TypeRange results) {
    b.setInsertionPointToEnd(module.getBody());
    const std::string name = called.str();
    auto f = func::FuncOp::create(b, loc, name, b.getFunctionType(inputs, results));
    f->setAttr("nn.entry", b.getStringAttr(name));
    Block *body = f.addEntryBlock();
    for (auto [i, n] : llvm::enumerate(names))
      f.setArgAttr(i, "nn.name", b.getStringAttr(n));
    b.setInsertionPointToStart(body);
    return body;
  }
  /// Ends the entry; `names` say what its results are.
  void end(ValueRange values = {}, ArrayRef<std::string> names = {}) {
    auto made = func::ReturnOp::create(b, loc, values);
    for (auto [i, name] : llvm::enumerate(names))
      made->getParentOfType<func::FuncOp>().setResultAttr(i, "nn.name", b.getStringAttr(name));
  }

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
    end({valid}, {"valid"});
  }

  /// An entry that takes what `pass`, `@forward` or a stage, does without the scale, and
  /// then, if that is a stage, the gradients of `outputs`.
  Block *passEntry(const Twine &name, func::FuncOp pass, TypeRange results,
                   TypeRange outputs = {}) {
    auto all = TypeRange(pass.getArgumentTypes());
    const SmallVector<std::string> inputNames = numbered("input", all.size() - kForwardArguments),
                                   gradientNames = numbered("output_gradient", outputs.size());
    SmallVector<Type> types(all.take_front(3));
    llvm::append_range(types, all.drop_front(kForwardArguments));
    llvm::append_range(types, outputs);
    SmallVector<StringRef> names = {"tokens", "targets", "positions"};
    llvm::append_range(names, inputNames);
    llvm::append_range(names, gradientNames);
    return entry(name, types, names, results);
  }

  /// The arguments of `pass` in an entry made for it.
  SmallVector<Value> argumentsOf(func::FuncOp pass, Block *body) {
    SmallVector<Value> arguments(body->getArguments().take_front(3));
    arguments.push_back(loadScalar("step.scale"));
    llvm::append_range(arguments,
                       body->getArguments().slice(3, pass.getNumArguments() - kForwardArguments));
    return arguments;
  }

  void microbatch() {
    Passage passage(b, kinds, /*record=*/true, sums);
    Block *body = passEntry("microbatch", forward, {});
    passage.forwardToLoss(forward.getBody().front(), argumentsOf(forward, body));
    passage.backward({}, {}, {});
    end();
  }

  /// Of several micro-batches the last one has an entry of its own: the same, but that
  /// gradients which `apply` marked are summed over ranks behind their last contribution,
  /// rather than in the update. In a pipeline that is the end of each stage's way back.
  void sumInLast() {
    llvm::MapVector<func::FuncOp, SmallVector<nn::ParameterOp>> summed;
    for (auto p : module.getOps<nn::ParameterOp>())
      if (p->hasAttr(kSumInLastAttr)) {
        if (func::FuncOp end = lastContributor(p))
          summed[end].push_back(p);
        else
          p->removeAttr(kSumInLastAttr);
      }
    for (auto &[end, parameters] : summed) {
      b.setInsertionPointAfter(end);
      auto function = cast<func::FuncOp>(b.clone(*end));
      auto [kind, stage] = end.getName().split('.');
      const std::string name = stage.empty() ? "last" : ("last." + stage).str();
      function.setName(name);
      function->setAttr("nn.entry", b.getStringAttr(name));
      SmallVector<nn::ParameterOp> complete;
      for (nn::ParameterOp p : parameters)
        if (nn::AccumulateOp contribution = contributionTo(p, function)) {
          insertBehind(contribution, p);
          sumGradient(p);
        } else {
          complete.push_back(p);
        }
      // What comes before it has all contributions to these.
      b.setInsertionPointToStart(&function.getBody().front());
      forParameters(complete, [&](nn::ParameterOp p) { sumGradient(p); });
    }
  }

  /// The function that ends a micro-batch's way back through all that adds to the gradient
  /// of `p`; none if several stages do, or nothing.
  func::FuncOp lastContributor(nn::ParameterOp p) {
    func::FuncOp contributor;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (!function->hasAttr("nn.entry") || !contributionTo(p, function))
        continue;
      func::FuncOp end = function;
      auto [kind, stage] = function.getName().split('.');
      // A head that goes forward and back in pieces adds to its gradients in the stage's forward.
      for (StringRef later : {"weights.", "backward."})
        if (auto entry = module.lookupSymbol<func::FuncOp>((later + stage).str())) {
          end = entry;
          break;
        }
      if (contributor && contributor != end)
        return {};
      contributor = end;
    }
    return contributor;
  }

  /// The last operator in `function` that adds to the gradient of `p`.
  static nn::AccumulateOp contributionTo(nn::ParameterOp p, func::FuncOp function) {
    nn::AccumulateOp last;
    function.walk([&](nn::AccumulateOp op) {
      if (op.getParameter() == p.getSymName() && op.getSlot() == nn::Slot::Gradient)
        last = op;
    });
    return last;
  }

  /// Behind all pieces, and of what is no layer's own all layers.
  void insertBehind(Operation *contribution, nn::ParameterOp p) {
    for (auto repeat = contribution->getParentOfType<RepeatOpInterface>();
         repeat && !(p.getLayers() && repeat->hasAttr("layers"));
         repeat = repeat->getParentOfType<RepeatOpInterface>())
      contribution = repeat;
    b.setInsertionPointAfter(contribution);
  }

  /// What ranks, and stages, have of a gradient goes to `reduced` as one sum.
  void sumGradient(nn::ParameterOp p) {
    Value sum = load(p.getSymName(), nn::Slot::Gradient, p.getTensorType());
    if (auto sharers = p->getAttrOfType<DenseI64ArrayAttr>("pipe.sharers"))
      sum = sumOverSharers(p, sum, sharers);
    nn::StoreOp::create(b, loc, sum, p.getSymName(), nn::Slot::Reduced, DenseI64ArrayAttr());
  }

  /// Goes forward as far as sums over the whole batch need it, and adds to them.
  void survey(func::FuncOp pass) {
    Block &from = pass.getBody().front();
    const bool isStage = pass->hasAttr("nn.stage");
    const bool goesOn = isStage && numberOf(pass) + 1 < surveyedStages();
    const auto passed = goesOn ? ValueRange(from.getTerminator()->getOperands()) : ValueRange();
    SmallVector<Value> wanted(passed);
    const SmallVector<WholeBatchOpInterface> own = batchSumsIn(from);
    for (WholeBatchOpInterface op : own)
      wanted.push_back(op.getContribution());
    Block *body = passEntry(isStage ? "survey." + Twine(numberOf(pass)) : Twine("survey"), pass,
                            TypeRange(passed));
    const BatchSums none;
    Passage passage(b, kinds, /*record=*/false, none);
    SmallVector<Value> made = passage.forward(from, argumentsOf(pass, body), wanted);
    for (auto [op, value] : llvm::zip(own, ArrayRef(made).drop_front(passed.size())))
      accumulate(value, sums[op]);
    end(ArrayRef(made).take_front(passed.size()), numbered("output", passed.size()));
  }

  /// "input.0", "input.1", …
  static SmallVector<std::string> numbered(StringRef name, size_t count) {
    SmallVector<std::string> names;
    for (size_t i = 0; i < count; ++i)
      names.push_back((name + "." + Twine(i)).str());
    return names;
  }

  /// Forward and backward of a micro-batch in a stage, and forward alone.
  void passes(func::FuncOp stage) {
    const int64_t number = numberOf(stage);
    const bool isLast = number + 1 == module->getAttrOfType<IntegerAttr>("pipe.stages").getInt();
    const TypeRange outputs = isLast ? TypeRange() : TypeRange(stage.getResultTypes());
    const SmallVector<std::string> outputNames = numbered("output", outputs.size());
    const unsigned inputs = stage.getNumArguments() - kForwardArguments, given = 3 + inputs;
    Block &from = stage.getBody().front();
    auto go = [&](Passage &passage, Block *body) -> SmallVector<Value> {
      if (!isLast)
        return passage.forward(from, argumentsOf(stage, body), from.getTerminator()->getOperands());
      passage.forwardToLoss(from, argumentsOf(stage, body));
      return {};
    };

    Block *body = passEntry("evaluate." + Twine(number), stage, outputs);
    const BatchSums none;
    Passage alone(b, kinds, /*record=*/false, none);
    end(go(alone, body), outputNames);

    const std::string ending = "." + std::to_string(number);
    body = passEntry("passes" + ending, stage, {}, outputs);
    Passage both(b, kinds, /*record=*/true, sums);
    SmallVector<EntryPart, 3> parts(2);
    parts[0] = {"forward" + ending, nullptr, go(both, body), outputNames, 0, given};
    parts[0].last = &body->back();
    parts[1] = {"backward" + ending,
                nullptr,
                both.backward(parts[0].results, body->getArguments().drop_front(given),
                              body->getArguments().slice(3, inputs)),
                numbered("input_gradient", inputs),
                given,
                body->getNumArguments()};
    parts[1].last = lastBehind(parts[0].last, body);
    if (module->hasAttr("pipe.weights_apart")) {
      Operation *end = &body->back();
      both.weights();
      parts.push_back({"weights" + ending, lastBehind(end, body), {}, {}, 0, 0});
    }
    cutInParts(cast<func::FuncOp>(body->getParentOp()), parts);
  }

  /// The last operator, if it is another one than `op`.
  static Operation *lastBehind(Operation *op, Block *body) {
    return &body->back() == op ? nullptr : &body->back();
  }

  /// Behind the stages' evaluations.
  void finishEvaluation() {
    entry("evaluate", {}, {}, {scalar});
    end({sumOverStages(loadScalar("step.loss"))}, {"loss"});
  }

  /// The sum over the places in the pipeline, or `v` where there is none.
  Value sumOverStages(Value v) {
    if (stages.empty())
      return v;
    auto axes = module->getAttrOfType<ArrayAttr>("pipe.axes");
    return dist::StageSumOp::create(b, loc, v, axes, allPlaces());
  }

  /// The numbers of all places in the pipeline.
  SmallVector<int64_t> allPlaces() {
    return llvm::to_vector(
        llvm::seq<int64_t>(0, module->getAttrOfType<IntegerAttr>("pipe.ranks").getInt()));
  }

  void evaluate() {
    const BatchSums none;
    Passage passage(b, kinds, /*record=*/false, none);
    Block *body = passEntry("evaluate", forward, {scalar});
    passage.forwardToLoss(forward.getBody().front(), argumentsOf(forward, body));
    end({loadScalar("step.loss")}, {"loss"});
  }

  /// Calls `each` for every parameter of `all`; once for those of several layers, in a repeat.
  void forParameters(ArrayRef<nn::ParameterOp> all, function_ref<void(nn::ParameterOp)> each) {
    llvm::MapVector<Attribute, SmallVector<nn::ParameterOp>> byLayers;
    for (nn::ParameterOp p : all)
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
                        SmallVector<Type>(hasTerms() ? 3 : 2, scalar));
    // Here the ranks add up their gradients, once, if the last micro-batch did not: both
    // passes read the sums.
    const auto all = llvm::to_vector(module.getOps<nn::ParameterOp>());
    forParameters(all, [&](nn::ParameterOp p) {
      auto sharers = p->getAttrOfType<DenseI64ArrayAttr>("pipe.sharers");
      if (!p->hasAttr(kSumInLastAttr))
        sumGradient(p);
      Value gradient = load(p.getSymName(), nn::Slot::Reduced, p.getTensorType());
      // What several places have counts at the first of them.
      if (!sharers || sharers[0] == module->getAttrOfType<IntegerAttr>("pipe.index").getInt())
        accumulate(nn::SumSquaresOp::create(b, loc, scalar, gradient), "step.squares");
    });
    // Before anything is changed: a step whose loss is no number changes no weights.
    SmallVector<Value> results = {sumOverStages(loadScalar("step.loss"))};
    SmallVector<std::string> names = {"loss"};
    auto clip = optimizer.clipNorm ? b.getF64FloatAttr(*optimizer.clipNorm) : FloatAttr();
    auto norm = nn::ClipScaleOp::create(b, loc, scalar, scalar,
                                        sumOverStages(loadScalar("step.squares")), clip);
    forParameters(all, [&](nn::ParameterOp p) { step(p, norm.getScale(), body->getArguments()); });
    results.push_back(norm.getNorm());
    names.push_back("norm");
    if (hasTerms()) {
      results.push_back(
          nn::AddOp::create(b, loc, scalar, results[0], sumOverStages(loadScalar("step.terms")))
              .getResult());
      names.push_back("objective");
    }
    end(results, names);
  }

  /// The gradient of a tensor that several places in the pipeline have, cut as the
  /// optimizer needs it.
  Value sumOverSharers(nn::ParameterOp p, Value gradient, DenseI64ArrayAttr sharers) {
    auto sum = dist::StageSumOp::create(b, loc, gradient,
                                        module->getAttrOfType<ArrayAttr>("pipe.axes"), sharers);
    NamedAttrList factors;
    const DictionaryAttr places = factorsOf(p);
    for (auto [d, name] : llvm::enumerate(nn::dimNames(p.getTensorType())))
      if (Attribute axes = places.get(name))
        factors.set("dim " + std::to_string(d), axes);
    sum->setAttr("dist.factors", factors.getDictionary(b.getContext()));
    return sum;
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

  /// The stages of this place in a pipeline, in order; none without one.
  static SmallVector<func::FuncOp> stagesOf(ModuleOp module) {
    SmallVector<func::FuncOp> stages;
    for (auto function : module.getOps<func::FuncOp>())
      if (function->hasAttr("nn.stage"))
        stages.push_back(function);
    return stages;
  }

  /// tokens, targets, positions, scale.
  static constexpr unsigned kForwardArguments = 4;

  ModuleOp module;
  llvm::StringMap<SplitKind> &kinds;
  const OptimizerSettings &optimizer;
  const int64_t microBatches;
  BatchSums sums;
  OpBuilder b;
  SmallVector<func::FuncOp> stages;
  /// `@forward`, or the first stage: what tokens are like.
  func::FuncOp forward;
  Location loc;
  RankedTensorType scalar;
};
} // namespace

void buildEntries(ModuleOp module, llvm::StringMap<SplitKind> &kinds,
                  const OptimizerSettings &optimizer, int64_t microBatches) {
  EntryBuilder(module, kinds, optimizer, microBatches).build();
}

} // namespace cleave

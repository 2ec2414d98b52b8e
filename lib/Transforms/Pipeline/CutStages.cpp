//===- CutStages.cpp - A model cut into the programs of a pipeline ----------===//
//
// `@forward` is a list of layers, those of a repeat counted one by one. A stage has
// some that follow each other: calls are copied, repeats get fewer iterations and
// parameters of as many layers. What earlier layers give to later ones goes from
// stage to stage, also through those that do not look at it. Two values that whoever gets
// them only adds up (`nn.sum` of a kind) go as their sum.
//
//===----------------------------------------------------------------------===//

#include "cleave/Transforms/Pipeline/Pipeline.h"
#include "dialects/Dist/Dist.h"
#include "dialects/Interfaces/LayerNames.h"
#include "dialects/NN/NN.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include <map>

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_CUTSTAGESPASS
#include "lib/Transforms/Pipeline/Passes.h.inc"

namespace {
/// A call or a repeat in `@forward`, and the layers that it has.
struct Item {
  Operation *op;
  int64_t begin, end;
  /// Calls in one iteration.
  int64_t each = 1;
};

/// Some of the layers that a parameter stands for; all of one that has none.
struct LayerRange {
  int64_t first = 0, count = 0;
  auto operator<=>(const LayerRange &) const = default;
};

/// What goes from a stage to the next: a value, or the sum of two.
struct Crossing {
  Value value, addend;
};

/// The layers of a model, and what goes from those before a cut to those behind.
class LayerList {
public:
  explicit LayerList(func::FuncOp forward) : forward(forward) {
    int64_t at = 0;
    for (Operation &op : forward.getBody().front().without_terminator()) {
      auto repeat = dyn_cast<nn::RepeatOp>(op);
      if (!repeat && !isa<func::CallOp>(op))
        continue;
      Item item{&op, at, at + 1};
      if (repeat) {
        item.each = llvm::range_size(repeat.getBody().getOps<func::CallOp>());
        item.end = at + item.each * repeat.getIterations();
      }
      at = item.end;
      items.push_back(item);
    }
  }

  int64_t size() const { return items.empty() ? 0 : items.back().end; }

  /// What layers before `cut` make and what is needed from there on. Of a repeat that is
  /// cut, its results stand for what it carries at that point.
  SmallVector<Crossing> crossing(int64_t cut) const {
    SmallVector<Value> values;
    for (const Item &item : items) {
      if (item.begin >= cut)
        break;
      for (Value result : item.op->getResults())
        if (cut < item.end || isNeeded(result, cut))
          values.push_back(result);
    }
    SmallVector<Crossing> crossings;
    llvm::SmallPtrSet<Value, 4> added;
    for (Value v : values) {
      if (added.contains(v))
        continue;
      Value other;
      for (Value w : values)
        if (w != v && !added.contains(w) && areOnlyAdded(v, w, cut))
          other = w;
      if (other)
        added.insert(other);
      crossings.push_back({v, other});
    }
    return crossings;
  }

  func::FuncOp forward;
  SmallVector<Item> items;

private:
  /// The operands of calls that get `v` behind `cut`; nothing if something else does.
  std::optional<SmallVector<OpOperand *>> receivers(Value v, int64_t cut) const {
    SmallVector<OpOperand *> found;
    SmallVector<Value> seen = {v};
    const auto *next = llvm::find_if(items, [&](const Item &item) { return item.end > cut; });
    if (next != items.end() && next->begin < cut && v.getDefiningOp() == next->op)
      seen[0] =
          cast<nn::RepeatOp>(next->op).getBody().getArgument(cast<OpResult>(v).getResultNumber());
    for (size_t i = 0; i < seen.size(); ++i)
      for (OpOperand &use : seen[i].getUses()) {
        Operation *user = use.getOwner();
        const auto *item = llvm::find_if(items, [&](const Item &it) { return it.op == user; });
        if (item != items.end() && item->begin < cut)
          continue;
        if (isa<func::CallOp>(user))
          found.push_back(&use);
        else if (auto repeat = dyn_cast<nn::RepeatOp>(user))
          seen.push_back(repeat.getBody().getArgument(use.getOperandNumber()));
        else
          return std::nullopt;
      }
    return found;
  }

  /// Whether all that get either of the two get both, and add them up first.
  bool areOnlyAdded(Value lhs, Value rhs, int64_t cut) const {
    auto left = receivers(lhs, cut), right = receivers(rhs, cut);
    if (!left || !right || left->empty() || left->size() != right->size())
      return false;
    return llvm::all_of(llvm::zip(*left, *right), [&](auto pair) {
      auto [l, r] = pair;
      auto kind = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
          l->getOwner(), cast<func::CallOp>(l->getOwner()).getCalleeAttr());
      auto sum = kind ? kind->template getAttrOfType<DenseI64ArrayAttr>("nn.sum") : nullptr;
      return sum && l->getOwner() == r->getOwner() && l->getOperandNumber() == sum[0] &&
             r->getOperandNumber() == sum[1];
    });
  }

  bool isNeeded(Value v, int64_t cut) const {
    return llvm::any_of(v.getUses(), [&](OpOperand &use) {
      Operation *user = v.getParentBlock()->findAncestorOpInBlock(*use.getOwner());
      const auto *item = llvm::find_if(items, [&](const Item &i) { return i.op == user; });
      // What stands between layers goes with those that read it.
      if (item == items.end() && !user->hasTrait<OpTrait::IsTerminator>())
        return llvm::any_of(user->getResults(), [&](Value made) { return isNeeded(made, cut); });
      // A repeat that has begun has taken what it starts with; its block reads on.
      return item == items.end() || item->begin >= cut ||
             (item->end > cut && use.getOwner() != user);
    });
  }
};

/// Builds the program of one place in the pipeline.
class PartBuilder {
public:
  PartBuilder(ModuleOp model, const LayerList &layers, ModuleOp part)
      : model(model), layers(layers), part(part), b(part.getBodyRegion()) {}

  /// Adds `@stage.<number>`, which has the layers from `first` to before `end`.
  void addStage(int64_t number, int64_t first, int64_t end) {
    func::FuncOp forward = layers.forward;
    const SmallVector<Crossing> inputs = layers.crossing(first);
    const bool isLast = end == layers.size();
    SmallVector<Crossing> outputs;
    if (isLast)
      for (Value v : forward.getBody().front().getTerminator()->getOperands())
        outputs.push_back({v, {}});
    else
      outputs = layers.crossing(end);
    auto typesOf = [](ArrayRef<Crossing> crossings) {
      return llvm::map_to_vector(crossings, [](const Crossing &c) { return c.value.getType(); });
    };
    SmallVector<Type> types(forward.getArgumentTypes());
    llvm::append_range(types, typesOf(inputs));
    b.setInsertionPointToEnd(part.getBody());
    auto stage = func::FuncOp::create(b, forward.getLoc(), "stage." + std::to_string(number),
                                      b.getFunctionType(types, typesOf(outputs)));
    stage->setAttr("nn.stage", b.getI64IntegerAttr(number));
    Block *body = stage.addEntryBlock();
    b.setInsertionPointToStart(body);
    map = IRMapping();
    for (auto [i, argument] : llvm::enumerate(forward.getArguments())) {
      for (NamedAttribute a : mlir::function_interface_impl::getArgAttrs(forward, i))
        stage.setArgAttr(i, a.getName(), a.getValue());
      map.map(argument, body->getArgument(i));
    }
    for (auto [input, argument] :
         llvm::zip(inputs, body->getArguments().drop_front(forward.getNumArguments()))) {
      map.map(input.value, argument);
      if (input.addend)
        map.map(input.addend, nn::FillOp::create(b, argument.getLoc(), argument.getType(),
                                                 b.getF64FloatAttr(0.0)));
    }
    for (const Item &item : layers.items)
      if (int64_t from = std::max(first, item.begin), to = std::min(end, item.end); from < to)
        addItem(item, from, to);
    SmallVector<Value> results;
    for (const Crossing &output : outputs) {
      Value v = map.lookup(output.value);
      if (output.addend) {
        auto sum =
            nn::AddOp::create(b, forward.getLoc(), v.getType(), v, map.lookup(output.addend));
        sum->setAttr("nn.path", b.getStringAttr("stage.residual"));
        v = sum;
      }
      results.push_back(v);
    }
    func::ReturnOp::create(b, forward.getLoc(), results);
  }

  /// Adds the parameters and kinds that the stages use. `sharers` are the places in the
  /// pipeline that have a tensor, for those of several.
  void addDefinitions(const llvm::StringMap<SmallVector<int64_t>> &sharers) {
    b.setInsertionPointToStart(part.getBody());
    for (auto parameter : model.getOps<nn::ParameterOp>())
      for (const LayerRange &range : used[parameter.getSymName().str()]) {
        auto own = cast<nn::ParameterOp>(b.clone(*parameter));
        if (auto all = parameter.getLayers()) {
          const int64_t step = (*all)[2], first = (*all)[0] + range.first * step;
          own.setSymName(nameOf(parameter, range));
          own.setLayersAttr(b.getDenseI64ArrayAttr({first, range.count, step}));
        }
        if (auto it = sharers.find(own.getSymName()); it != sharers.end())
          own->setAttr("pipe.sharers", b.getDenseI64ArrayAttr(it->second));
      }
    for (auto function : model.getOps<func::FuncOp>()) {
      auto joint = function->getAttrOfType<FlatSymbolRefAttr>("nn.joint");
      if (kinds.contains(function.getNameAttr()) || (joint && kinds.contains(joint.getAttr())))
        b.clone(*function);
    }
  }

private:
  void addItem(const Item &item, int64_t from, int64_t to) {
    for (Value operand : item.op->getOperands())
      bring(operand);
    if (auto call = dyn_cast<func::CallOp>(item.op)) {
      kinds.insert(call.getCalleeAttr().getAttr());
      b.clone(*call, map);
      return;
    }
    addRepeat(cast<nn::RepeatOp>(item.op), (from - item.begin) / item.each,
              (to - from) / item.each);
  }

  /// The iterations of `original` from number `first` on.
  void addRepeat(nn::RepeatOp original, int64_t first, int64_t count) {
    original.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (operand.getParentBlock() == original->getBlock() && inner != original.getOperation())
          bring(operand);
    });
    IRMapping results = map;
    auto made = cast<nn::RepeatOp>(b.clone(*original, results));
    for (auto [i, result] : llvm::enumerate(original.getLast()))
      if (first > 0)
        made->setOperand(i, map.lookup(result));
    map.map(original.getResults(), made.getResults());
    made.setCount(count);
    if (auto layers = original.getLayers())
      made.setLayersAttr(
          b.getDenseI64ArrayAttr({(*layers)[0] + first * (*layers)[1], (*layers)[1]}));
    made.walk([&](func::CallOp call) { kinds.insert(call.getCalleeAttr().getAttr()); });
    made.walk([&](nn::LoadOp load) {
      auto parameter = model.lookupSymbol<nn::ParameterOp>(load.getParameter());
      LayerRange range;
      if (parameter && parameter.getLayers())
        range = {first, count};
      note(parameter, range);
      if (parameter && range.count > 0)
        load.setParameter(nameOf(parameter, range));
    });
  }

  /// Copies what makes `v`, if it is neither there nor given: what reads a parameter, or
  /// stands between layers.
  void bring(Value v) {
    Operation *op = v.getDefiningOp();
    if (map.contains(v) || !op || isa<func::CallOp, nn::RepeatOp>(op))
      return;
    for (Value operand : op->getOperands())
      bring(operand);
    if (auto load = dyn_cast<nn::LoadOp>(op))
      note(model.lookupSymbol<nn::ParameterOp>(load.getParameter()), {});
    b.clone(*op, map);
  }

  void note(nn::ParameterOp parameter, LayerRange range) {
    if (parameter)
      used[parameter.getSymName().str()].insert(range);
  }

  /// The symbol of the layers in `range`: "layers.{4..7}.norm.weight".
  static std::string nameOf(nn::ParameterOp parameter, LayerRange range) {
    auto all = *parameter.getLayers();
    const int64_t step = all[2], first = all[0] + range.first * step;
    auto [before, behind] = parameter.getSymName().split('{');
    return before.str() + layerNumbers(first, range.count, step) + behind.split('}').second.str();
  }

  ModuleOp model;
  const LayerList &layers;
  ModuleOp part;
  OpBuilder b;
  IRMapping map;
  std::map<std::string, std::set<LayerRange>> used;
  llvm::DenseSet<StringAttr> kinds;
};
} // namespace

/// Where each stage's layers end; fails where that is inside of an iteration.
static FailureOr<SmallVector<int64_t>> endsOf(plan::PipelineOp pipeline, const LayerList &layers) {
  SmallVector<int64_t> ends;
  int64_t at = 0;
  for (auto stage : pipeline.getOps<plan::StageOp>()) {
    for (int64_t count : stage.getCounts())
      at += count;
    for (const Item &item : layers.items)
      if (at > item.begin && at < item.end && (at - item.begin) % item.each != 0)
        return stage.emitOpError("ends between layers of which an iteration has several");
    ends.push_back(at);
  }
  if (at != layers.size())
    return pipeline.emitOpError() << "has " << at << " layers in its stages; the model has "
                                  << layers.size();
  return ends;
}

static LogicalResult checkModel(ModuleOp model) {
  auto forward = model.lookupSymbol<func::FuncOp>("forward");
  if (!forward || forward.isExternal())
    return model.emitError("has no @forward to cut into stages");
  for (auto repeat : forward.getBody().getOps<nn::RepeatOp>())
    if (repeat->getNumOperands() != repeat.getNumCarried() ||
        repeat->getNumResults() != repeat.getNumCarried())
      return repeat.emitOpError("repeats layers: it may carry values, and neither scan nor stack "
                                "any");
  return success();
}

/// Says in all parts what those need to know of each other's stages: whether more than the
/// loss is minimised, and how many of the first stages know what is summed over the whole
/// batch.
static void markTerms(func::FuncOp forward, ArrayRef<OwningOpRef<ModuleOp>> parts) {
  int64_t surveyed = 0;
  for (const OwningOpRef<ModuleOp> &part : parts)
    for (auto stage : ModuleOp(*part).getOps<func::FuncOp>())
      if (auto number = stage->getAttrOfType<IntegerAttr>("nn.stage");
          number && !stage.getBody().getOps<WholeBatchOpInterface>().empty())
        surveyed = std::max(surveyed, number.getInt() + 1);
  Builder b(forward.getContext());
  for (const OwningOpRef<ModuleOp> &part : parts) {
    ModuleOp module = *part;
    if (forward.getNumResults() > 1)
      module->setAttr("pipe.terms", b.getUnitAttr());
    if (surveyed > 0)
      module->setAttr("pipe.surveyed", b.getI64IntegerAttr(surveyed));
  }
}

LogicalResult cutStages(ModuleOp model, plan::SolutionOp solution) {
  auto pipeline = plan::entry<plan::PipelineOp>(solution);
  if (!pipeline)
    return solution.emitOpError("has no pipeline to cut the model for");
  if (failed(checkModel(model)))
    return failure();
  const LayerList layers(model.lookupSymbol<func::FuncOp>("forward"));
  auto ends = endsOf(pipeline, layers);
  if (failed(ends))
    return failure();
  MLIRContext *context = model.getContext();
  context->loadDialect<dist::DistDialect>();
  plan::AxisTable axes(solution);
  const auto over = axes.expand(pipeline.getAxis());
  const int64_t ranks = axes.size(over);
  llvm::StringMap<SmallVector<int64_t>> sharers;
  for (auto shared : pipeline.getOps<plan::SharedOp>()) {
    std::set<int64_t> places;
    for (int64_t stage : shared.getStages())
      places.insert(stage % ranks);
    if (places.size() > 1)
      sharers[shared.getParameter()].assign(places.begin(), places.end());
  }
  SmallVector<OwningOpRef<ModuleOp>> parts;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    parts.push_back(ModuleOp::create(model.getLoc(), "part." + std::to_string(rank)));
    ModuleOp part = *parts.back();
    for (NamedAttribute a : model->getDiscardableAttrs())
      part->setAttr(a.getName(), a.getValue());
    Builder b(context);
    part->setAttr("pipe.index", b.getI64IntegerAttr(rank));
    part->setAttr("pipe.axes", b.getArrayAttr(SmallVector<Attribute>(over.begin(), over.end())));
    part->setAttr("pipe.ranks", b.getI64IntegerAttr(ranks));
    part->setAttr("pipe.stages", b.getI64IntegerAttr(static_cast<int64_t>(ends->size())));
    if (llvm::any_of(model.getOps<pipe::ScheduleOp>(),
                     [](pipe::ScheduleOp s) { return s.getTable().hasWeightGradients(); }))
      part->setAttr("pipe.weights_apart", b.getUnitAttr());
    PartBuilder builder(model, layers, part);
    for (auto stage = rank; stage < static_cast<int64_t>(ends->size()); stage += ranks)
      builder.addStage(stage, stage == 0 ? 0 : (*ends)[stage - 1], (*ends)[stage]);
    builder.addDefinitions(sharers);
  }
  markTerms(layers.forward, parts);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*model.getBody())))
    if (!isa<plan::SolutionOp, pipe::ScheduleOp>(op))
      op.erase();
  OpBuilder b = OpBuilder::atBlockEnd(model.getBody());
  dist::MeshOp::create(b, solution.getLoc(), "mesh",
                       b.getArrayAttr(SmallVector<Attribute>(axes.names.begin(), axes.names.end())),
                       axes.sizes);
  for (OwningOpRef<ModuleOp> &part : parts)
    model.push_back(part.release());
  return success();
}

namespace {
struct CutStagesPass : impl::CutStagesPassBase<CutStagesPass> {
  using CutStagesPassBase::CutStagesPassBase;

  void runOnOperation() override {
    auto plans = llvm::to_vector(getOperation().getOps<plan::SolutionOp>());
    if (plans.size() != 1) {
      getOperation().emitError() << "holds " << plans.size()
                                 << " plans; cleave-pipeline-cut needs one plan.solution";
      return signalPassFailure();
    }
    if (failed(cutStages(getOperation(), plans.front())))
      signalPassFailure();
  }
};
} // namespace

} // namespace cleave

//===- Check.cpp - Can this plan be carried out on this model? -------------===//

#include "cleave/Planner/Planner.h"
#include "dialects/Interfaces/Interfaces.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/Base/Suggest.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
namespace cleave {

/// " (did you mean 'x'?)", or nothing.
static std::string hint(StringRef given, ArrayRef<std::string> known) {
  std::vector<std::string> names(known.begin(), known.end());
  auto near = rt::nearestName(given.str(), names);
  return near ? " (did you mean '" + *near + "'?)" : "";
}

namespace {
class Checker {
public:
  Checker(plan::SolutionOp solution, ModuleOp model)
      : solution(solution), model(model), axes(solution) {}

  LogicalResult run(int64_t ranks) {
    auto layout = plan::entry<plan::LayoutOp>(solution);
    if (failed(checkRanks(ranks)) || failed(checkAxes(layout, layout.getDims())) ||
        failed(checkBatch()))
      return failure();
    for (Operation &op : solution.getBody().front()) {
      if (auto parameter = dyn_cast<plan::ParameterOp>(op)) {
        if (failed(checkParameter(parameter)))
          return failure();
      } else if (auto assign = dyn_cast<plan::AssignOp>(op)) {
        if (failed(checkAssign(assign)))
          return failure();
      }
    }
    return success();
  }

private:
  LogicalResult checkRanks(int64_t ranks) {
    int64_t product = axes.size(axes.names);
    if (product == ranks)
      return success();
    return solution.emitError() << "plan.ranks_mismatch: the plan's axes make " << product
                                << " ranks, the cluster has " << ranks;
  }

  LogicalResult checkBatch() {
    auto batch = plan::entry<plan::BatchOp>(solution);
    auto layout = plan::entry<plan::LayoutOp>(solution);
    int64_t dp = 1;
    if (auto list = layout.getDims().getAs<ArrayAttr>("batch"))
      dp = axes.size(axes.expand(list));
    if (batch.getGlobal() < 1 || batch.getMicro() < 1 || batch.getSequence() < 1)
      return batch.emitError("plan.batch_indivisible: sizes must be at least 1");
    if (batch.getGlobal() % (dp * batch.getMicro()) == 0)
      return success();
    return batch.emitError() << "plan.batch_indivisible: global batch " << batch.getGlobal()
                             << " is no multiple of " << dp << " (ranks that share it) × "
                             << batch.getMicro() << " (micro-batch)";
  }

  /// Axes exist, and none is named twice.
  LogicalResult checkAxes(Operation *op, DictionaryAttr places) {
    llvm::StringMap<StringRef> used;
    SmallVector<std::string> known;
    for (auto axis : solution.getOps<plan::AxisOp>())
      known.push_back(axis.getName().str());
    for (NamedAttribute place : places) {
      auto list = dyn_cast<ArrayAttr>(place.getValue());
      if (!list || !llvm::all_of(list, [](Attribute a) { return isa<StringAttr>(a); }))
        return op->emitError() << "plan.bad_value: '" << place.getName().getValue()
                               << "' needs a list of axes, as [\"tensor\"]";
      for (Attribute a : list) {
        StringRef name = cast<StringAttr>(a).getValue();
        auto expanded = axes.expand(name);
        if (expanded.empty())
          return op->emitError() << "plan.unknown_axis: the plan has no axis '" << name << "'"
                                 << hint(name, known);
        for (StringAttr e : expanded)
          if (auto [it, fresh] = used.try_emplace(e.getValue(), place.getName().getValue()); !fresh)
            return op->emitError()
                   << "plan.axis_used_twice: the axis '" << e.getValue() << "' cuts both '"
                   << it->second << "' and '" << place.getName().getValue() << "'";
      }
    }
    return success();
  }

  LogicalResult checkParameter(plan::ParameterOp parameter) {
    SmallVector<std::string> known;
    for (auto kind : model.getOps<func::FuncOp>())
      for (unsigned i = 0; kind->hasAttr("nn.kind") && i < kind.getNumArguments(); ++i) {
        auto name = kind.getArgAttrOfType<StringAttr>(i, "nn.parameter");
        if (!name)
          continue;
        known.push_back(name.str());
        if (name.getValue() != parameter.getName())
          continue;
        for (NamedAttribute place : parameter.getStored())
          if (nn::findDim(kind.getArgument(i).getType(), place.getName()) < 0)
            return parameter.emitError()
                   << "plan.unknown_factor: '" << parameter.getName() << "' has no dimension '"
                   << place.getName().getValue() << "'";
        return checkAxes(parameter, parameter.getStored());
      }
    return parameter.emitError() << "plan.unknown_parameter: no layer has a parameter '"
                                 << parameter.getName() << "'" << hint(parameter.getName(), known);
  }

  LogicalResult checkAssign(plan::AssignOp assign) {
    auto kind = model.lookupSymbol<func::FuncOp>(assign.getKind());
    if (!kind || !kind->hasAttr("nn.kind")) {
      SmallVector<std::string> known;
      for (auto f : model.getOps<func::FuncOp>())
        if (f->hasAttr("nn.kind"))
          known.push_back(f.getName().str());
      return assign.emitError() << "plan.unknown_kind: the model has no kind of layer '"
                                << assign.getKind() << "'" << hint(assign.getKind(), known);
    }
    SmallVector<std::string> known;
    SmallVector<Operation *> at;
    for (Operation &op : kind.getBody().getOps())
      if (auto path = op.getAttrOfType<StringAttr>("nn.path")) {
        known.push_back(path.str());
        if (path.getValue() == assign.getPath())
          at.push_back(&op);
      }
    if (at.empty())
      return assign.emitError() << "plan.unknown_path: '" << assign.getKind()
                                << "' has no operator at '" << assign.getPath() << "'"
                                << hint(assign.getPath(), known);
    if (failed(checkAxes(assign, assign.getFactors())))
      return failure();
    for (NamedAttribute place : assign.getFactors())
      if (failed(checkFactor(assign, place.getName(), at)))
        return failure();
    return success();
  }

  LogicalResult checkFactor(plan::AssignOp assign, StringRef factor, ArrayRef<Operation *> at) {
    SmallVector<std::string> known;
    bool found = false;
    for (Operation *op : at) {
      auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
      if (!sharded)
        continue;
      ShardingRule rule = sharded.getShardingRule();
      for (const Factor &f : rule.factors)
        if (f.shardable)
          known.push_back(f.name);
      int f = rule.find(factor);
      if (f < 0)
        continue;
      found = true;
      if (!rule.factors[f].shardable) {
        InFlightDiagnostic d = assign.emitError()
                               << "plan.factor_not_shardable: '" << factor << "' of '"
                               << assign.getPath() << "' cannot be cut";
        d.attachNote(op->getLoc()) << "the operator needs all of it";
        return d;
      }
    }
    if (found)
      return success();
    return assign.emitError() << "plan.unknown_factor: '" << assign.getPath() << "' has no factor '"
                              << factor << "'" << hint(factor, known);
  }

  plan::SolutionOp solution;
  ModuleOp model;
  plan::AxisTable axes;
};
} // namespace

LogicalResult checkPlan(plan::SolutionOp solution, ModuleOp model, int64_t ranks) {
  return Checker(solution, model).run(ranks);
}

int64_t stateBytesPerRank(plan::SolutionOp solution, ModuleOp model) {
  plan::AxisTable axes(solution);
  llvm::StringMap<DictionaryAttr> placed;
  for (auto p : solution.getOps<plan::ParameterOp>())
    placed[p.getName()] = p.getStored();
  // A parameter of a layer is placed by its name in the layer, which ends its symbol.
  auto placement = [&](StringRef symbol) -> DictionaryAttr {
    for (auto &[name, dims] : placed)
      if (symbol.ends_with(name))
        return dims;
    return {};
  };
  constexpr int64_t kBytesPerElement = 16;
  int64_t bytes = 0;
  for (auto p : model.getOps<nn::ParameterOp>()) {
    DictionaryAttr dims = placement(p.getSymName());
    int64_t elements = 1;
    auto type = p.getTensorType();
    for (auto [name, size] : llvm::zip(nn::dimNames(type), type.getShape())) {
      auto list = dims ? dims.getAs<ArrayAttr>(name.getValue()) : ArrayAttr();
      int64_t parts = list ? axes.size(axes.expand(list)) : 1;
      elements *= (size + parts - 1) / parts;
    }
    bytes += elements * kBytesPerElement;
  }
  return bytes;
}

} // namespace cleave

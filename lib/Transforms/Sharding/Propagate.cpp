//===- Propagate.cpp - Where every value lies ------------------------------===//
//
// One walk in program order; callees are entered at their first call. Example,
// `ffn` assigned to the axis t:
//
//   %h = contract(%x, %w1)   factors b, s, d, f→t     %w1 must be cut along f
//   %y = contract(%h, %w2)   factors b, s, f→t, d     %y lacks f: partial over t
//   %z = rms_norm(%y, …)     not linear in %y         %y must be complete here
//
//===----------------------------------------------------------------------===//

#include "cleave/Transforms/Sharding/Sharding.h"
#include "lib/Transforms/Sharding/Notes.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_PROPAGATESHARDINGSPASS
#include "lib/Transforms/Sharding/Passes.h.inc"

using dist::Axes;
using dist::ShardingAttr;

static int64_t rankOf(Type type) { return cast<RankedTensorType>(type).getRank(); }

namespace {
class Propagator {
public:
  explicit Propagator(ModuleOp module) : module(module), symbols(module) {}

  LogicalResult run() {
    auto found = findMesh(module);
    if (failed(found) || failed(checkGiven(module, *found)))
      return failure();
    mesh = *found;
    llvm::DenseSet<StringAttr> called;
    module.walk([&](CallOpInterface call) {
      if (auto name = dyn_cast<SymbolRefAttr>(call.getCallableForCallee()))
        called.insert(name.getRootReference());
    });
    for (auto function : module.getOps<FunctionOpInterface>())
      if (!called.contains(function.getNameAttr()) && failed(enter(function, {})))
        return failure();
    // Contributions to one slot agree only once all of them are known.
    for (auto [op, symbol, slot] : contributions)
      setOperands(op, {slotSharding(symbol, slot, op->getOperand(0).getType())});
    return success();
  }

private:
  ShardingAttr replicated(Type type) {
    return ShardingAttr::replicated(module.getContext(), rankOf(type));
  }

  static void setList(Operation *op, StringRef name, ArrayRef<ShardingAttr> list) {
    SmallVector<Attribute> attrs(list.begin(), list.end());
    op->setAttr(name, ArrayAttr::get(op->getContext(), attrs));
  }
  static void setOperands(Operation *op, ArrayRef<ShardingAttr> list) {
    setList(op, "dist.in", list);
  }
  void setResults(Operation *op, ArrayRef<ShardingAttr> list) {
    setList(op, "dist.out", list);
    for (auto [v, s] : llvm::zip(op->getResults(), list))
      placed[v] = s;
  }

  /// Settles a function given where a caller's operands lie (empty: none).
  LogicalResult enter(FunctionOpInterface function, ArrayRef<ShardingAttr> operands) {
    done.insert(function);
    entered.insert(function);
    for (auto [i, argument] : llvm::enumerate(function.getArguments())) {
      auto given = function.getArgAttrOfType<ShardingAttr>(i, "dist.sharding");
      if (Attribute source = function.getArgAttr(i, "dist.as"); source && !given) {
        if (failed(placeAs(function, i, source)))
          return failure();
        given = function.getArgAttrOfType<ShardingAttr>(i, "dist.sharding");
      }
      if (!given) {
        given = i < operands.size() ? operands[i] : replicated(argument.getType());
        function.setArgAttr(i, "dist.sharding", given);
      }
      placed[argument] = given;
    }
    for (Operation &op : function.getFunctionBody().front())
      if (failed(op.hasTrait<OpTrait::IsTerminator>() ? leave(function, &op) : visit(&op)))
        return failure();
    entered.erase(function);
    return success();
  }

  /// Places argument `i` as `source` = [function, number of a result] leaves that result.
  LogicalResult placeAs(FunctionOpInterface function, unsigned i, Attribute source) {
    auto list = dyn_cast<ArrayAttr>(source);
    auto name = list && list.size() == 2 ? dyn_cast<FlatSymbolRefAttr>(list[0]) : nullptr;
    auto number = name ? dyn_cast<IntegerAttr>(list[1]) : nullptr;
    auto other = number ? symbols.lookup<FunctionOpInterface>(name.getValue()) : nullptr;
    if (!other || entered.contains(other) || number.getInt() < 0 ||
        number.getInt() >= other.getNumResults() ||
        other.getResultTypes()[number.getInt()] != function.getArgumentTypes()[i])
      return function->emitOpError() << "places argument " << i << " as what is no result of its "
                                     << "type of another function: " << source;
    if (!done.contains(other) && failed(enter(other, {})))
      return failure();
    function.setArgAttr(i, "dist.sharding", other.getResultAttr(number.getInt(), "dist.sharding"));
    function.removeArgAttr(i, StringAttr::get(function->getContext(), "dist.as"));
    return success();
  }

  /// Where `v` is complete, if it is partial and another operator of its block completes it.
  ShardingAttr completedAt(Value v, Operation *end) {
    ShardingAttr own = placed.lookup(v);
    if (own.getPartial().empty())
      return {};
    Operation *first = end;
    ShardingAttr complete;
    for (OpOperand &use : v.getUses()) {
      Operation *user = use.getOwner();
      auto in = user->getAttrOfType<ArrayAttr>("dist.in");
      if (!in || user->getBlock() != end->getBlock() || !user->isBeforeInBlock(first))
        continue;
      if (auto asked = cast<ShardingAttr>(in[use.getOperandNumber()]); asked.getPartial().empty()) {
        first = user;
        complete = asked;
      }
    }
    return complete;
  }

  /// What is not said lies as it is made, but not as terms of a sum that is made anyway.
  LogicalResult leave(FunctionOpInterface function, Operation *end) {
    SmallVector<ShardingAttr> results;
    for (auto [i, v] : llvm::enumerate(end->getOperands())) {
      auto given = function.getResultAttrOfType<ShardingAttr>(i, "dist.sharding");
      ShardingAttr complete = given ? given : completedAt(v, end);
      results.push_back(complete ? complete : placed.lookup(v));
      function.setResultAttr(i, "dist.sharding", results.back());
    }
    setOperands(end, results);
    return success();
  }

  LogicalResult visit(Operation *op) {
    if (auto call = dyn_cast<CallOpInterface>(op))
      return visitCall(call);
    if (auto state = dyn_cast<StateOpInterface>(op))
      return visitState(state);
    if (auto repeat = dyn_cast<RepeatOpInterface>(op))
      return visitRepeat(repeat);
    if (auto sharded = dyn_cast<ShardingRuleOpInterface>(op))
      return visitSharded(op, sharded.getShardingRule());
    return op->emitOpError("has no sharding rule");
  }

  LogicalResult visitCall(CallOpInterface call) {
    auto callee = dyn_cast_or_null<FunctionOpInterface>(call.resolveCallable());
    if (!callee)
      return call->emitOpError("calls a function that is not in the module");
    if (entered.contains(callee))
      return call->emitOpError("calls a function that it is in");
    SmallVector<ShardingAttr> operands =
        llvm::map_to_vector(call->getOperands(), [&](Value v) { return placed.lookup(v); });
    if (!done.contains(callee) && failed(enter(callee, operands)))
      return failure();
    SmallVector<ShardingAttr> in, out;
    for (unsigned i = 0; i < callee.getNumArguments(); ++i)
      in.push_back(callee.getArgAttrOfType<ShardingAttr>(i, "dist.sharding"));
    for (unsigned i = 0; i < callee.getNumResults(); ++i)
      out.push_back(callee.getResultAttrOfType<ShardingAttr>(i, "dist.sharding"));
    setOperands(call, in);
    setResults(call, out);
    return success();
  }

  /// A slice of `whole` lies as that does along the dimensions that it has.
  static ShardingAttr ofSlice(RepeatOpInterface repeat, ShardingAttr whole, Type wholeType,
                              Type slice) {
    SmallVector<SmallVector<StringAttr>> dims;
    bool removed = rankOf(slice) != rankOf(wholeType);
    for (int64_t d = 0; d < rankOf(wholeType); ++d)
      if (!removed ||
          llvm::none_of(repeat.getSlicing(wholeType), [&](const Slicing &s) { return s.dim == d; }))
        dims.push_back(whole.axes(d));
    return ShardingAttr::get(whole.getContext(), dims, whole.getPartial(), whole.getApart());
  }

  static ShardingAttr ofWhole(RepeatOpInterface repeat, ShardingAttr slice, Type sliceType,
                              Type whole) {
    SmallVector<SmallVector<StringAttr>> dims;
    for (unsigned d = 0; d < slice.getDims().size(); ++d)
      dims.push_back(slice.axes(d));
    if (rankOf(sliceType) != rankOf(whole))
      for (const Slicing &s : repeat.getSlicing(whole))
        dims.insert(dims.begin() + s.dim, SmallVector<StringAttr>());
    return ShardingAttr::get(slice.getContext(), dims, slice.getPartial(), slice.getApart());
  }

  /// Pieces are parts of every rank's block: all scanned values are cut along the
  /// sliced dimensions as the first one that is cut.
  SmallVector<Axes> axesOfPieces(RepeatOpInterface repeat) {
    SmallVector<Axes> axes;
    for (Value v : repeat->getOperands().drop_front(repeat.getNumCarried()))
      for (auto [i, s] : llvm::enumerate(repeat.getSlicing(v.getType()))) {
        axes.resize(std::max(axes.size(), i + 1));
        if (axes[i].empty())
          axes[i] = placed.lookup(v).axes(s.dim);
      }
    return axes;
  }

  /// A dimension may be cut into its blocks, or not at all; otherwise a slice would
  /// lie on some of the ranks only.
  LogicalResult checkPieces(RepeatOpInterface repeat, Value whole, ShardingAttr sharding) {
    for (const Slicing &s : repeat.getSlicing(whole.getType()))
      if (int64_t ways = mesh.size(sharding.axes(s.dim)); ways != 1 && ways != s.blocks)
        return repeat->emitOpError() << "slices " << whole.getType() << " in " << s.blocks
                                     << " blocks along a dimension that is cut " << ways << " ways";
    return success();
  }

  /// Where a repeat needs an operand: carried values lie in every iteration as
  /// before the first, complete.
  ShardingAttr needed(RepeatOpInterface repeat, unsigned i, ArrayRef<Axes> pieces) {
    Value v = repeat->getOperand(i);
    ShardingAttr own = placed.lookup(v);
    if (i < repeat.getNumCarried())
      return ShardingAttr::get(own.getContext(), own.getDims(), ArrayRef<StringAttr>());
    SmallVector<SmallVector<StringAttr>> dims;
    for (int64_t d = 0; d < rankOf(v.getType()); ++d)
      dims.push_back(own.axes(d));
    for (auto [s, axes] : llvm::zip(repeat.getSlicing(v.getType()), pieces))
      dims[s.dim] = axes;
    return ShardingAttr::get(own.getContext(), dims, own.getPartial(), own.getApart());
  }

  LogicalResult visitRepeat(RepeatOpInterface repeat) {
    Block &block = repeat.getRepeatedBlock();
    Operation *end = block.getTerminator();
    unsigned carried = repeat.getNumCarried();
    SmallVector<Axes> pieces = axesOfPieces(repeat);
    SmallVector<ShardingAttr> in, arguments, yielded, out;
    for (auto [i, v] : llvm::enumerate(repeat->getOperands())) {
      Value argument = block.getArgument(i);
      in.push_back(needed(repeat, i, pieces));
      if (i >= carried && failed(checkPieces(repeat, v, in[i])))
        return failure();
      arguments.push_back(i < carried ? in[i]
                                      : ofSlice(repeat, in[i], v.getType(), argument.getType()));
      placed[argument] = arguments[i];
    }
    setList(repeat, "dist.arguments", arguments);
    for (Operation &op : block.without_terminator())
      if (failed(visit(&op)))
        return failure();
    for (auto [i, v] : llvm::enumerate(end->getOperands())) {
      Value result = repeat->getResult(i);
      yielded.push_back(i < carried ? in[i] : placed.lookup(v));
      out.push_back(i < carried ? in[i]
                                : ofWhole(repeat, yielded[i], v.getType(), result.getType()));
      if (i >= carried && failed(checkPieces(repeat, result, out[i])))
        return failure();
    }
    setOperands(end, yielded);
    setOperands(repeat, in);
    setResults(repeat, out);
    return success();
  }

  ShardingAttr slotSharding(Operation *symbol, StringRef slot, Type type) {
    auto given = symbol->getAttrOfType<ShardingAttr>(("dist." + slot).str());
    return given ? given : replicated(type);
  }

  LogicalResult visitState(StateOpInterface state) {
    Operation *symbol = symbols.lookup(state.getStateSymbol());
    if (!symbol)
      return state->emitOpError() << "names no symbol '" << state.getStateSymbol() << "'";
    StringRef slot = state.getStateSlot();
    if (state.getStateAccess() == StateAccess::Read) {
      setResults(state, {slotSharding(symbol, slot, state->getResult(0).getType())});
      return success();
    }
    Value value = state->getOperand(0);
    ShardingAttr kept = slotSharding(symbol, slot, value.getType());
    if (state.getStateAccess() == StateAccess::Accumulate) {
      Axes partial(kept.getPartial());
      Axes used = cuts(kept);
      if (auto complete = symbol->getAttrOfType<ArrayAttr>("dist.complete"))
        llvm::append_range(used, dist::axesOf(complete));
      for (StringAttr a : placed.lookup(value).getPartial())
        if (!llvm::is_contained(partial, a) && !llvm::is_contained(used, a))
          partial.push_back(a);
      mesh.sort(partial);
      kept = ShardingAttr::get(module.getContext(), kept.getDims(), partial);
      contributions.push_back({state, symbol, slot.str()});
    }
    symbol->setAttr(("dist." + slot).str(), kept);
    setOperands(state, {kept});
    return success();
  }

  static Axes cuts(ShardingAttr sharding) {
    Axes all;
    for (unsigned d = 0; d < sharding.getDims().size(); ++d)
      llvm::append_range(all, sharding.axes(d));
    return all;
  }

  /// The axes of each factor: as assigned, or as the operands are cut.
  FailureOr<SmallVector<Axes>> factorAxes(Operation *op, const ShardingRule &rule) {
    SmallVector<Axes> axes(rule.factors.size());
    if (auto given = op->getAttrOfType<DictionaryAttr>("dist.factors")) {
      for (NamedAttribute entry : given)
        if (int f = rule.find(entry.getName()); f >= 0) {
          if (!rule.factors[f].shardable)
            return op->emitOpError() << "cannot be cut along '" << rule.factors[f].name << "'";
          axes[f] = dist::axesOf(cast<ArrayAttr>(entry.getValue()));
        }
      return axes;
    }
    llvm::SmallSetVector<StringAttr, 8> used;
    for (auto [i, v] : llvm::enumerate(op->getOperands()))
      for (auto [d, f] : llvm::enumerate(rule.operands[i])) {
        if (!rule.factors[f].shardable || !axes[f].empty())
          continue;
        for (StringAttr a : placed.lookup(v).axes(d))
          if (used.insert(a))
            axes[f].push_back(a);
      }
    return axes;
  }

  /// The axes over which the operands of a linear group may stay partial.
  Axes keptPartial(Operation *op, ArrayRef<int> group, const Axes &used) {
    Axes common(placed.lookup(op->getOperand(group[0])).getPartial()), all = common;
    bool same = true;
    for (int i : group) {
      Axes own(placed.lookup(op->getOperand(i)).getPartial());
      same &= own == common;
      for (StringAttr a : own)
        if (!llvm::is_contained(all, a))
          all.push_back(a);
    }
    // Scalars join partial sums of different groups of ranks: making a complete
    // term partial costs nothing, completing each one costs an exchange.
    if (!same && rankOf(op->getOperand(group[0]).getType()) > 0)
      return {};
    mesh.sort(all);
    for (StringAttr a : all)
      if (llvm::is_contained(used, a))
        return {};
    return all;
  }

  /// The first group of operands that are apart alike, and through which the operator
  /// makes zeros of zeros; empty if there is none.
  ArrayRef<int> apartGroup(Operation *op, const ShardingRule &rule, const Axes &used) {
    for (const auto &group : rule.zeros) {
      ShardingAttr first = placed.lookup(op->getOperand(group[0]));
      if (first.getApart() &&
          llvm::all_of(group,
                       [&](int i) {
                         ShardingAttr own = placed.lookup(op->getOperand(i));
                         return own.getApart() && own.getPartial() == first.getPartial();
                       }) &&
          llvm::none_of(first.getPartial(),
                        [&](StringAttr a) { return llvm::is_contained(used, a); }))
        return group;
    }
    return {};
  }

  /// The factor that an index picks from, if that is cut, or -1. All indices into a
  /// dimension of one function are one value; of others nothing is said to be apart.
  int pickedFactor(Operation *op, const ShardingRule &rule, ArrayRef<Axes> axes) {
    for (auto [f, factor] : llvm::enumerate(rule.factors)) {
      if (factor.pickedBy < 0 || axes[f].empty())
        continue;
      Value index = op->getOperand(factor.pickedBy);
      auto [it, fresh] = pickers.try_emplace(
          {op->getParentOp(), StringAttr::get(op->getContext(), factor.name)}, index);
      if (it->second == index)
        return static_cast<int>(f);
    }
    return -1;
  }

  /// A value can be left as terms of a sum, never as candidates for a maximum.
  static LogicalResult checkReductions(Operation *op, const ShardingRule &rule,
                                       ArrayRef<Axes> axes) {
    for (auto [f, factor] : llvm::enumerate(rule.factors)) {
      bool everywhere = llvm::all_of(rule.results, [&](const SmallVector<int> &dims) {
        return llvm::is_contained(dims, int(f));
      });
      if (factor.reduction == ReductionKind::Max && !axes[f].empty() && !everywhere)
        return op->emitOpError() << "is cut along '" << factor.name
                                 << "', over which it takes a maximum; buildLocal must complete it";
    }
    return success();
  }

  LogicalResult visitSharded(Operation *op, const ShardingRule &rule) {
    auto axes = factorAxes(op, rule);
    if (failed(axes) || failed(checkReductions(op, rule, *axes)))
      return failure();
    Axes used;
    for (const Axes &list : *axes)
      for (StringAttr a : list) {
        if (llvm::is_contained(used, a))
          return op->emitOpError() << "is cut along two factors by the axis " << a;
        used.push_back(a);
      }
    setPlacements(op, rule, *axes, used);
    return success();
  }

  void setPlacements(Operation *op, const ShardingRule &rule, ArrayRef<Axes> axes,
                     const Axes &used) {
    // At most one group carries a partial sum: the first that has one.
    ArrayRef<int> carriers = apartGroup(op, rule, used);
    bool apart = !carriers.empty();
    Axes carried(apart ? placed.lookup(op->getOperand(carriers[0])).getPartial()
                       : ArrayRef<StringAttr>());
    for (const auto &group : rule.linear)
      if (carried.empty()) {
        carried = keptPartial(op, group, used);
        carriers = carried.empty() ? ArrayRef<int>() : ArrayRef<int>(group);
      }
    int picked = pickedFactor(op, rule, axes);
    auto place = [&](ArrayRef<int> dims, const Axes &partial, bool apart) {
      SmallVector<SmallVector<StringAttr>> cut;
      for (int f : dims)
        cut.push_back(axes[f]);
      return ShardingAttr::get(module.getContext(), cut, partial, apart);
    };
    SmallVector<ShardingAttr> in, out;
    for (auto [i, dims] : llvm::enumerate(rule.operands)) {
      bool carries = llvm::is_contained(carriers, int(i));
      in.push_back(place(dims, carries ? carried : Axes(), carries && apart));
      if (picked >= 0 && llvm::is_contained(rule.factors[picked].pickedOperands, int(i)))
        if (Axes own = sorted(axes[picked]); isApart(op->getOperand(i), own))
          in.back() = place(dims, own, true);
    }
    for (const auto &dims : rule.results) {
      Axes partial = carried;
      bool lacksPicked = picked >= 0 && !llvm::is_contained(dims, picked);
      bool picks = lacksPicked && llvm::all_of(rule.operands[rule.factors[picked].pickedBy],
                                               [&](int f) { return llvm::is_contained(dims, f); });
      for (auto [f, factor] : llvm::enumerate(rule.factors))
        if (factor.reduction && !llvm::is_contained(dims, int(f)))
          llvm::append_range(partial, axes[f]);
      mesh.sort(partial);
      out.push_back(place(dims, partial,
                          picks ? partial == sorted(axes[picked]) : apart && partial == carried));
    }
    setOperands(op, in);
    setResults(op, out);
  }

  Axes sorted(Axes axes) {
    mesh.sort(axes);
    return axes;
  }

  bool isApart(Value v, const Axes &axes) {
    ShardingAttr own = placed.lookup(v);
    return own.getApart() && Axes(own.getPartial()) == axes;
  }

  ModuleOp module;
  SymbolTable symbols;
  dist::Mesh mesh;
  llvm::DenseMap<Value, ShardingAttr> placed;
  /// The index into a dimension, by function and name.
  llvm::DenseMap<std::pair<Operation *, StringAttr>, Value> pickers;
  /// Functions that are settled or being settled, and the latter alone.
  llvm::DenseSet<Operation *> done, entered;
  SmallVector<std::tuple<Operation *, Operation *, std::string>> contributions;
};

struct PropagateShardingsPass : impl::PropagateShardingsPassBase<PropagateShardingsPass> {
  void runOnOperation() override {
    if (failed(propagateShardings(getOperation())))
      signalPassFailure();
  }
};
} // namespace

LogicalResult propagateShardings(ModuleOp module) { return Propagator(module).run(); }

} // namespace cleave

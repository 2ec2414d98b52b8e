//===- Partition.cpp - The program of one rank -----------------------------===//

#include "cleave/Transforms/Sharding/Sharding.h"
#include "lib/Transforms/Sharding/Notes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_PARTITIONPASS
#include "lib/Transforms/Sharding/Passes.h.inc"

using dist::Axes;
using dist::ShardingAttr;

namespace {
/// What an operator's local form may ask for, answered with dist operators.
class PartitionContext : public LocalContext {
public:
  /// `types` and `out`: what the results are, and where they lie.
  PartitionContext(OpBuilder &b, Location loc, const ShardingRule &rule, ArrayRef<Axes> axes,
                   const dist::Mesh &mesh, TypeRange types, ArrayAttr out)
      : b(b), loc(loc), rule(rule), axes(axes), mesh(mesh), types(types), out(out) {}

  bool isSharded(unsigned factor) override { return !axes[factor].empty(); }

  Value offset(unsigned factor) override {
    int64_t block = dist::blockSize(rule.factors[factor].size, mesh.size(axes[factor]));
    auto type = RankedTensorType::get({}, b.getI32Type());
    return dist::OffsetOp::create(b, loc, type, meshName(), list(factor), block);
  }

  Value allReduce(Value value, unsigned factor, ReductionKind kind) override {
    auto reduction = kind == ReductionKind::Sum ? dist::Reduction::Sum : dist::Reduction::Max;
    auto made = dist::AllReduceOp::create(b, loc, value.getType(), value, meshName(), list(factor),
                                          reduction);
    // A value inside of the operator that is like a result is cut as that is.
    for (auto [type, note] : llvm::zip(types, out))
      if (type == value.getType()) {
        auto to = cast<ShardingAttr>(note).complete();
        noteExchange(made, ShardingAttr::get(b.getContext(), to.getDims(), axes[factor]), to);
        break;
      }
    return made;
  }

private:
  static StringRef meshName() { return "mesh"; }
  ArrayAttr list(unsigned factor) {
    return b.getArrayAttr(SmallVector<Attribute>(axes[factor].begin(), axes[factor].end()));
  }
  OpBuilder &b;
  Location loc;
  const ShardingRule &rule;
  ArrayRef<Axes> axes;
  const dist::Mesh &mesh;
  TypeRange types;
  ArrayAttr out;
};

class Partitioner {
public:
  Partitioner(ModuleOp module, const dist::Mesh &mesh) : module(module), mesh(mesh) {}

  LogicalResult run() {
    for (auto function : module.getOps<FunctionOpInterface>())
      if (failed(rewrite(function)))
        return failure();
    return success();
  }

private:
  RankedTensorType local(Type type, Attribute sharding) {
    return dist::localType(cast<RankedTensorType>(type), cast<ShardingAttr>(sharding), mesh);
  }

  LogicalResult rewrite(FunctionOpInterface function) {
    Block &old = function.getFunctionBody().front();
    auto fresh = std::make_unique<Block>();
    SmallVector<Type> inputs, results;
    map = IRMapping();
    for (auto [i, argument] : llvm::enumerate(old.getArguments())) {
      inputs.push_back(local(argument.getType(), function.getArgAttr(i, "dist.sharding")));
      map.map(argument, fresh->addArgument(inputs.back(), argument.getLoc()));
    }
    for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
      results.push_back(local(type, function.getResultAttr(i, "dist.sharding")));
    if (failed(fill(*fresh, old)))
      return failure();
    function.getFunctionBody().push_back(fresh.release());
    function.getFunctionBody().back().moveBefore(&old);
    old.dropAllDefinedValueUses();
    old.erase();
    function.setType(FunctionType::get(module.getContext(), inputs, results));
    return success();
  }

  /// Rewrites the operators of `old` into `fresh`.
  LogicalResult fill(Block &fresh, Block &old) {
    OpBuilder b(module.getContext());
    b.setInsertionPointToEnd(&fresh);
    for (Operation &op : old)
      if (failed(rewrite(b, &op)))
        return failure();
    return success();
  }

  /// How many ways the sliced dimensions are cut; the same for all values (checked).
  SmallVector<int64_t> waysOfPieces(RepeatOpInterface op) {
    SmallVector<int64_t> ways;
    auto of = [&](ValueRange values, StringRef list) {
      auto notes = op->getAttrOfType<ArrayAttr>(list);
      for (auto [v, note] : llvm::drop_begin(llvm::zip(values, notes), op.getNumCarried()))
        if (ways.empty())
          for (const Slicing &s : op.getSlicing(v.getType()))
            ways.push_back(mesh.size(cast<ShardingAttr>(note).axes(s.dim)));
    };
    of(op->getOperands(), "dist.in");
    of(op->getResults(), "dist.out");
    return ways;
  }

  LogicalResult rewriteRepeat(OpBuilder &b, RepeatOpInterface op, ValueRange operands,
                              TypeRange types) {
    OperationState state(op->getLoc(), op->getName(), operands, types, kept(op));
    Block *block = new Block;
    state.addRegion()->push_back(block);
    auto notes = op->getAttrOfType<ArrayAttr>("dist.arguments");
    for (auto [argument, note] : llvm::zip(op.getRepeatedBlock().getArguments(), notes))
      map.map(argument, block->addArgument(local(argument.getType(), note), argument.getLoc()));
    if (failed(fill(*block, op.getRepeatedBlock())))
      return failure();
    Operation *made = b.create(state);
    cast<RepeatOpInterface>(made).divideBlocks(waysOfPieces(op));
    map.map(op->getResults(), made->getResults());
    return success();
  }

  LogicalResult rewrite(OpBuilder &b, Operation *op) {
    if (auto reshard = dyn_cast<dist::ReshardOp>(op)) {
      map.map(reshard.getResult(),
              lowerReshard(b, op->getLoc(), map.lookup(reshard.getInput()), reshard.getType(),
                           reshard.getSource(), reshard.getTarget(), mesh,
                           op->getAttrOfType<StringAttr>("nn.path")));
      return success();
    }
    auto in = op->getAttrOfType<ArrayAttr>("dist.in"),
         out = op->getAttrOfType<ArrayAttr>("dist.out");
    SmallVector<Value> operands =
        llvm::map_to_vector(op->getOperands(), [&](Value v) { return map.lookup(v); });
    SmallVector<Type> types;
    for (auto [i, v] : llvm::enumerate(op->getResults()))
      types.push_back(local(v.getType(), out[i]));

    if (auto repeat = dyn_cast<RepeatOpInterface>(op))
      return rewriteRepeat(b, repeat, operands, types);
    if (auto sharded = dyn_cast<ShardingRuleOpInterface>(op))
      return rewriteSharded(b, sharded, operands, types, in, out);
    if (isa<StateOpInterface>(op) && !operands.empty())
      operands[0] = maskAll(b, op->getLoc(), operands[0], op->getOperand(0).getType(),
                            cast<ShardingAttr>(in[0]));
    Operation *made = clone(b, op, operands, types);
    map.map(op->getResults(), made->getResults());
    return success();
  }

  /// The operator as it is, on local values.
  Operation *clone(OpBuilder &b, Operation *op, ValueRange operands, TypeRange types) {
    OperationState state(op->getLoc(), op->getName(), operands, types, kept(op));
    return b.create(state);
  }

  /// Attributes without the notes of earlier steps.
  static SmallVector<NamedAttribute> kept(Operation *op) {
    SmallVector<NamedAttribute> attrs;
    for (NamedAttribute a : op->getAttrs())
      if (!isPassing(a))
        attrs.push_back(a);
    return attrs;
  }

  /// `value` with the padding along dimension `d` set to `neutral`.
  Value mask(OpBuilder &b, Location loc, Value value, int64_t d, int64_t size, const Axes &axes,
             double neutral) {
    auto list = b.getArrayAttr(SmallVector<Attribute>(axes.begin(), axes.end()));
    return dist::MaskOp::create(b, loc, value.getType(), value, Value(), "mesh", list, d, size,
                                llvm::APFloat(neutral), IntegerAttr());
  }

  /// Zeros in all the padding of a tensor that is kept.
  Value maskAll(OpBuilder &b, Location loc, Value value, Type whole, ShardingAttr sharding) {
    for (auto [d, size] : llvm::enumerate(cast<RankedTensorType>(whole).getShape()))
      if (Axes axes = sharding.axes(d); size % mesh.size(axes) != 0)
        value = mask(b, loc, value, d, size, axes, 0.0);
    return value;
  }

  LogicalResult rewriteSharded(OpBuilder &b, ShardingRuleOpInterface op,
                               MutableArrayRef<Value> operands, TypeRange types, ArrayAttr in,
                               ArrayAttr out) {
    ShardingRule rule = op.getShardingRule();
    SmallVector<Axes> axes(rule.factors.size());
    for (auto [i, dims] : llvm::enumerate(rule.operands))
      for (auto [d, f] : llvm::enumerate(dims))
        axes[f] = cast<ShardingAttr>(in[i]).axes(d);
    for (auto [i, dims] : llvm::enumerate(rule.results))
      for (auto [d, f] : llvm::enumerate(dims))
        axes[f] = cast<ShardingAttr>(out[i]).axes(d);
    for (auto [f, factor] : llvm::enumerate(rule.factors))
      if (factor.size % mesh.size(axes[f]) != 0)
        maskFactor(b, op->getLoc(), rule, f, axes[f], operands);
    PartitionContext context(b, op->getLoc(), rule, axes, mesh, types, out);
    Operation *before = b.getInsertionBlock()->empty() ? nullptr : &b.getInsertionBlock()->back();
    SmallVector<Value> results = op.buildLocal(b, operands, types, context);
    Operation *made = before ? before->getNextNode() : &b.getInsertionBlock()->front();
    for (; made; made = made->getNextNode()) {
      made->setAttrs(kept(made));
      if (Attribute path = op->getAttr("nn.path"))
        made->setAttr("nn.path", path);
      if (auto sum = dyn_cast<dist::StageSumOp>(made))
        noteStageSum(sum, cast<ShardingAttr>(out[0]), reportedName(op->getOperand(0), op));
    }
    for (auto [v, local] : llvm::zip(op->getResults(), results))
      map.map(v, local);
    return success();
  }

  /// Terms of a sum over stages, whose axes are none of this mesh's own.
  static void noteStageSum(dist::StageSumOp sum, ShardingAttr to, StringAttr name) {
    Axes over = dist::axesOf(sum.getAxes());
    noteExchange(sum, ShardingAttr::get(sum.getContext(), to.getDims(), over), to);
    if (name)
      sum->setAttr("nn.path", name);
  }

  /// Padding of a factor that some result sums over must be neutral.
  void maskFactor(OpBuilder &b, Location loc, const ShardingRule &rule, unsigned f,
                  const Axes &axes, MutableArrayRef<Value> operands) {
    const Factor &factor = rule.factors[f];
    int chosen = rule.neutralOperand(f);
    bool summed = llvm::any_of(rule.results, [&](const SmallVector<int> &dims) {
      return !llvm::is_contained(dims, int(f));
    });
    if (!summed || !factor.neutral || chosen < 0)
      return;
    int64_t d = llvm::find(rule.operands[chosen], int(f)) - rule.operands[chosen].begin();
    operands[chosen] = mask(b, loc, operands[chosen], d, factor.size, axes, *factor.neutral);
  }

  ModuleOp module;
  dist::Mesh mesh;
  IRMapping map;
};
} // namespace

/// What a call or a return says of its values is what the function says.
static LogicalResult checkBoundary(Operation *op, FunctionOpInterface function) {
  auto agrees = [&](StringRef list, unsigned count, auto ofFunction) -> LogicalResult {
    auto notes = op->getAttrOfType<ArrayAttr>(list);
    for (unsigned i = 0; i < count; ++i)
      if (notes[i] != ofFunction(i))
        return op->emitOpError() << "and @" << function.getName() << " disagree on value " << i
                                 << " of '" << list << "': " << notes[i] << " and "
                                 << ofFunction(i);
    return success();
  };
  auto argument = [&](unsigned i) { return function.getArgAttr(i, "dist.sharding"); };
  auto result = [&](unsigned i) { return function.getResultAttr(i, "dist.sharding"); };
  if (op->hasTrait<OpTrait::IsTerminator>())
    return agrees("dist.in", op->getNumOperands(), result);
  if (failed(agrees("dist.in", op->getNumOperands(), argument)))
    return failure();
  return agrees("dist.out", op->getNumResults(), result);
}

static LogicalResult checkStatic(Operation *op, TypeRange types) {
  if (llvm::all_of(types, [](Type t) { return cast<RankedTensorType>(t).hasStaticShape(); }))
    return success();
  return op->emitOpError("needs static shapes; run cleave-sizes-specialize first");
}

/// Every operand lies as its operator needs it.
static LogicalResult checkOperands(Operation *op) {
  auto needs = op->getAttrOfType<ArrayAttr>("dist.in");
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto reshard = dyn_cast<dist::ReshardOp>(op);
    ShardingAttr has = placementOf(operand),
                 wants = reshard ? reshard.getSource() : cast<ShardingAttr>(needs[i]);
    if (has != wants)
      return op->emitOpError() << "needs operand " << i << " as " << wants << ", which lies as "
                               << has << "; run cleave-sharding-insert-reshards first";
  }
  return success();
}

/// What the block of a repeat yields is what the repeat returns, and pieces are the
/// same for all that it scans and stacks.
static LogicalResult checkRepeat(Operation *end, RepeatOpInterface repeat) {
  auto yielded = end->getAttrOfType<ArrayAttr>("dist.in"),
       returned = repeat->getAttrOfType<ArrayAttr>("dist.out"),
       taken = repeat->getAttrOfType<ArrayAttr>("dist.in");
  unsigned carried = repeat.getNumCarried();
  for (unsigned i = 0; i < carried; ++i)
    if (yielded[i] != returned[i] || taken[i] != returned[i])
      return repeat->emitOpError()
             << "takes, yields and returns carried value " << i << " in different places";
  SmallVector<Axes> first;
  auto agree = [&](Value v, Attribute note) -> LogicalResult {
    SmallVector<Axes> axes;
    for (const Slicing &s : repeat.getSlicing(v.getType()))
      axes.push_back(cast<ShardingAttr>(note).axes(s.dim));
    if (first.empty())
      first = axes;
    if (axes != first)
      return repeat->emitOpError("slices values that are cut in different ways along the sliced "
                                 "dimensions");
    return success();
  };
  for (unsigned i = carried; i < repeat->getNumOperands(); ++i)
    if (failed(agree(repeat->getOperand(i), taken[i])))
      return failure();
  for (unsigned i = carried; i < repeat->getNumResults(); ++i)
    if (failed(agree(repeat->getResult(i), returned[i])))
      return failure();
  return success();
}

/// The notes are those of one program, with its reshards in it.
static LogicalResult checkReady(FunctionOpInterface function) {
  if (failed(checkStatic(function, function.getArgumentTypes())))
    return failure();
  auto check = [&](Operation *op) -> LogicalResult {
    if (failed(checkStatic(op, op->getResultTypes())) || failed(checkOperands(op)))
      return failure();
    if (auto repeat = dyn_cast<RepeatOpInterface>(op->getParentOp());
        repeat && op->hasTrait<OpTrait::IsTerminator>())
      return checkRepeat(op, repeat);
    FunctionOpInterface other;
    if (auto call = dyn_cast<CallOpInterface>(op))
      other = dyn_cast_or_null<FunctionOpInterface>(call.resolveCallable());
    else if (op->hasTrait<OpTrait::IsTerminator>())
      other = function;
    return other ? checkBoundary(op, other) : success();
  };
  return forEachOperation(function.getFunctionBody().front(), check);
}

LogicalResult partition(ModuleOp module) {
  auto mesh = findMesh(module);
  if (failed(mesh) || failed(checkNotes(module, *mesh)))
    return failure();
  for (auto function : module.getOps<FunctionOpInterface>())
    if (failed(checkReady(function)))
      return failure();
  return Partitioner(module, *mesh).run();
}

namespace {
struct PartitionPass : impl::PartitionPassBase<PartitionPass> {
  void runOnOperation() override {
    if (failed(partition(getOperation())))
      signalPassFailure();
  }
};
} // namespace

} // namespace cleave

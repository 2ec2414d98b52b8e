//===- RunInBlocks.cpp - A dimension gone through in blocks -----------------===//

#include "cleave/Analysis/Blocks.h"
#include "cleave/Support/Inline.h"
#include "cleave/Transforms/Blocks/Blocks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_RUNINBLOCKSPASS
#include "lib/Transforms/Blocks/Passes.h.inc"

namespace {
/// What an operator may ask for while it is built for a block.
class BlockContext : public LocalContext {
public:
  BlockContext(int factor, Value begin) : factor(factor), begin(begin) {}
  bool isSharded(unsigned f) override { return int(f) == factor; }
  Value offset(unsigned) override { return begin; }
  Value allReduce(Value, unsigned, ReductionKind) override {
    llvm_unreachable("the analysis lets no operator in that completes its own results");
  }

private:
  int factor;
  Value begin;
};

/// The call of one function, whose body goes through `dim` in `blocks` blocks.
class BlockRewriter {
public:
  BlockRewriter(func::CallOp call, StringAttr dim, int64_t blocks)
      : call(call), dim(dim), blocks(blocks), loc(call.getLoc()), b(call) {}

  LogicalResult run() {
    auto inlined = inlineCall(call);
    if (failed(inlined))
      return failure();
    SmallVector<Operation *> ops = std::move(*inlined);
    addFollowers(ops);
    if (auto found = splitForBlocks(ops, dim, split))
      return refuse(*found);
    if (split.inside.empty())
      return success();
    inside.insert(split.inside.begin(), split.inside.end());
    b.setInsertionPointAfter(split.inside.back());
    if (failed(findSources()))
      return failure();
    findSinks();
    int64_t size = llvm::divideCeil(extent, blocks), full = extent / size;
    if (extent % size != 0 && (!scanned.empty() || !stacked.empty()))
      return refuseUneven();
    repeat(size, full);
    if (int64_t rest = extent - size * full) {
      Value begin = indices({size * full}, {});
      build({rest, begin, {size * full, 0, extent}}, {});
    }
    finish();
    return success();
  }

private:
  /// As this plan cuts it, the part cannot go in blocks.
  LogicalResult refuse(const ChunkObstacle &found) {
    InFlightDiagnostic error = mlir::emitError(found.op->getLoc())
                               << "plan.chunk_unsupported: pieces along '" << dim.getValue()
                               << "': '" << found.op->getName() << "' " << found.reason;
    error.attachNote() << "rule: operators along the dimension are cut alike, so that nothing "
                          "is exchanged between them";
    error.attachNote() << "suggestion: the plan without its plan.chunk";
    return error;
  }

  /// Values that pass through memory whole have equal blocks.
  LogicalResult refuseUneven() {
    int64_t equal = blocks;
    while (extent % equal != 0)
      ++equal;
    InFlightDiagnostic error = mlir::emitError(split.inside.front()->getLoc())
                               << "plan.chunk_indivisible: " << extent << " elements of '"
                               << dim.getValue() << "' on a rank do not give " << blocks
                               << " equal pieces";
    error.attachNote() << "rule: pieces are equal where a parameter along the dimension lies "
                          "otherwise than it is used, or its gradient does";
    error.attachNote() << "suggestion: " << equal << " pieces";
    return error;
  }

  /// One block: how many indices it has, the first one, and the rows of kept tensors.
  struct Piece {
    int64_t size;
    Value begin;
    StateRows rows;
  };

  /// Operators behind the call that can take its results block by block: padding that
  /// is masked before it reaches a kept tensor.
  void addFollowers(SmallVector<Operation *> &ops) {
    for (size_t i = 0; i < ops.size(); ++i)
      for (Value v : ops[i]->getResults())
        for (Operation *user : v.getUsers())
          if (has(v) && isa<BlockwiseOpInterface>(user) && !llvm::is_contained(ops, user) &&
              user->getBlock() == ops[i]->getBlock() && user->getOperands() == ValueRange(v)) {
            user->moveAfter(ops.back());
            ops.push_back(user);
          }
  }

  bool has(Value v) const { return nn::findDim(v.getType(), dim) >= 0; }

  Type blockType(Type type, int64_t size) const {
    int d = nn::findDim(type, dim);
    auto tensor = cast<RankedTensorType>(type);
    if (d < 0)
      return type;
    SmallVector<int64_t> shape(tensor.getShape());
    shape[d] = size;
    return tensor.clone(shape);
  }

  /// Whether a kept tensor changes (or, with `reads`, is touched) between two
  /// operators of one block, so that `state` must not move over what is there.
  static bool isTouched(StateOpInterface state, Operation *from, Operation *to, bool reads) {
    for (Operation *op = from->getNextNode(); op && op != to; op = op->getNextNode()) {
      WalkResult walk = op->walk([&](StateOpInterface other) {
        bool same = other != state && other.getStateSymbol() == state.getStateSymbol() &&
                    other.getStateSlot() == state.getStateSlot();
        // Sums are added in any order.
        bool matters = reads ? other.getStateAccess() != StateAccess::Accumulate
                             : other.getStateAccess() != StateAccess::Read;
        return same && matters ? WalkResult::interrupt() : WalkResult::advance();
      });
      if (walk.wasInterrupted())
        return true;
    }
    return false;
  }

  /// Rows can be addressed where the dimension is the first one.
  bool hasRows(Value v) const { return nn::findDim(v.getType(), dim) == 0; }

  /// Where blocks of values from outside come from.
  LogicalResult findSources() {
    for (Operation *op : split.inside)
      for (Value v : op->getOperands()) {
        if (!has(v) || inside.contains(v.getDefiningOp()))
          continue;
        int64_t n = cast<RankedTensorType>(v.getType()).getDimSize(nn::findDim(v.getType(), dim));
        if (extent != 0 && n != extent)
          return op->emitOpError() << "has " << n << " of '" << dim.getValue() << "' where others "
                                   << "have " << extent;
        extent = n;
        auto read = dyn_cast_or_null<StateOpInterface>(v.getDefiningOp());
        if (read && hasRows(v) && !read.getStateRows() && read->getBlock() == op->getBlock() &&
            !isTouched(read, read, op, false))
          reads[v] = read;
        else
          scanned.insert(v);
      }
    if (extent == 0)
      return split.inside.front()->emitOpError() << "makes its '" << dim.getValue() << "' itself";
    return success();
  }

  /// Where blocks of values that others need go.
  void findSinks() {
    Operation *end = split.inside.back();
    for (Operation *op : split.inside)
      for (Value v : op->getResults()) {
        SmallVector<Operation *> users;
        for (Operation *user : v.getUsers())
          if (!inside.contains(user))
            users.push_back(user);
        if (!has(v) || users.empty())
          continue;
        bool added = hasRows(v) && llvm::all_of(users, [&](Operation *user) {
                       auto add = dyn_cast<StateOpInterface>(user);
                       return add && add.getStateAccess() == StateAccess::Accumulate &&
                              !add.getStateRows() && add->getBlock() == op->getBlock() &&
                              !isTouched(add, end, add, true);
                     });
        if (added)
          for (Operation *user : users)
            adds[v].push_back(cast<StateOpInterface>(user));
        else
          stacked.insert(v);
      }
  }

  /// `values` as i32, along `dims`.
  Value indices(ArrayRef<int32_t> values, ArrayRef<StringAttr> dims) {
    SmallVector<int64_t> shape;
    if (!dims.empty())
      shape.push_back(values.size());
    auto type = nn::namedTensor(b.getI32Type(), shape, dims);
    return nn::ConstantOp::create(b, loc, type, DenseElementsAttr::get(type, values));
  }
  Value indices(std::initializer_list<int64_t> values, ArrayRef<StringAttr> dims) {
    return indices(SmallVector<int32_t>(values.begin(), values.end()), dims);
  }

  void repeat(int64_t size, int64_t full) {
    start();
    SmallVector<int32_t> begins;
    for (int64_t i = 0; i < full; ++i)
      begins.push_back(static_cast<int32_t>(i * size));
    SmallVector<Value> wholes = {indices(begins, {dim})};
    SmallVector<Type> made, slices{TypeRange(ValueRange(carried))};
    slices.push_back(RankedTensorType::get({}, b.getI32Type()));
    // Of a value whose blocks do not fill it there are rows alone.
    for (Value v : scanned) {
      wholes.push_back(v);
      slices.push_back(blockType(v.getType(), size));
    }
    for (Value v : stacked)
      made.push_back(v.getType());
    auto loop =
        nn::RepeatOp::create(b, loc, TypeRange(ValueRange(carried)), made,
                             b.getI64IntegerAttr(full), b.getArrayAttr({dim}), DenseI64ArrayAttr(),
                             DenseI64ArrayAttr(), UnitAttr(), DenseI64ArrayAttr(), carried, wholes);
    {
      OpBuilder::InsertionGuard guard(b);
      Block *block =
          b.createBlock(&loop.getBody(), {}, slices, SmallVector<Location>(slices.size(), loc));
      unsigned first = carried.size();
      carried.assign(block->args_begin(), block->args_begin() + first);
      SmallVector<Value> stack = build({size, block->getArgument(first), {0, size, extent}},
                                       ValueRange(block->getArguments()).drop_front(first + 1));
      SmallVector<Value> yielded = carried;
      llvm::append_range(yielded, stack);
      nn::YieldOp::create(b, loc, yielded);
    }
    carried.assign(loop.getLast().begin(), loop.getLast().end());
    for (auto [v, whole] :
         llvm::zip(SmallVector<Value>(stacked.begin(), stacked.end()), loop.getStacked()))
      v.replaceUsesWithIf(whole, [&](OpOperand &use) { return !inside.contains(use.getOwner()); });
  }

  /// Whether a result of `op` is gathered up over the blocks.
  bool gathers(Operation *op) const { return op->getNumResults() > 0 && !has(op->getResult(0)); }

  /// What is carried into the first block.
  void start() {
    for (Operation *op : split.inside) {
      if (!gathers(op))
        continue;
      SmallVector<Value> values;
      if (auto blockwise = dyn_cast<BlockwiseOpInterface>(op))
        values = blockwise.buildBlocksStart(b);
      else
        for (Value v : op->getResults())
          values.push_back(nn::FillOp::create(b, loc, v.getType(), b.getF64FloatAttr(0.0)));
      gathered[op] = values.size();
      llvm::append_range(carried, values);
    }
  }

  /// Builds what is done to one block and puts what it carries on in `carried`.
  /// `slices` are those of `scanned`; returns those of `stacked`.
  SmallVector<Value> build(const Piece &piece, ValueRange slices) {
    IRMapping map;
    for (auto [v, slice] : llvm::zip(scanned, slices))
      map.map(v, slice);
    for (auto [v, read] : reads)
      map.map(
          v,
          read.buildForRows(b, {}, blockType(v.getType(), piece.size), piece.rows)->getResult(0));
    SmallVector<Value> next;
    ValueRange before(carried);
    for (Operation *op : split.inside) {
      SmallVector<Value> results = buildOp(op, piece, map, before, next);
      for (auto [v, block] : llvm::zip(op->getResults(), results))
        if (has(v))
          map.map(v, block);
    }
    for (auto &[v, list] : adds)
      for (StateOpInterface add : list)
        add.buildForRows(b, map.lookup(v), TypeRange(), piece.rows);
    carried = next;
    return llvm::map_to_vector(stacked, [&](Value v) { return map.lookup(v); });
  }

  /// `op` on one block. Takes what it gathers up from the front of `before` and adds
  /// what it hands on to `next`.
  SmallVector<Value> buildOp(Operation *op, const Piece &piece, IRMapping &map, ValueRange &before,
                             SmallVector<Value> &next) {
    SmallVector<Value> operands =
        llvm::map_to_vector(op->getOperands(), [&](Value v) { return map.lookupOrDefault(v); });
    SmallVector<Type> types = llvm::map_to_vector(
        op->getResultTypes(), [&](Type type) { return blockType(type, piece.size); });
    Operation *last = lastOp();
    SmallVector<Value> results;
    if (auto blockwise = dyn_cast<BlockwiseOpInterface>(op)) {
      unsigned count = gathered.lookup(op);
      results = blockwise.buildBlock(b, operands, types, piece.begin, before.take_front(count));
      before = before.drop_front(count);
      if (gathers(op))
        llvm::append_range(next, results);
    } else {
      auto sharded = cast<ShardingRuleOpInterface>(op);
      BlockContext context(sharded.getShardingRule().find(dim), piece.begin);
      results = sharded.buildLocal(b, operands, types, context);
      if (gathers(op))
        for (Value v : results) {
          next.push_back(nn::AddOp::create(b, loc, v.getType(), before.front(), v));
          before = before.drop_front();
        }
    }
    auto made = last ? std::next(last->getIterator()) : b.getInsertionBlock()->begin();
    for (; made != b.getInsertionPoint(); ++made)
      if (Attribute path = op->getAttr("nn.path"))
        made->setAttr("nn.path", path);
    return results;
  }

  /// The operator before the insertion point, or null.
  Operation *lastOp() {
    Block *block = b.getInsertionBlock();
    if (block->empty() || b.getInsertionPoint() == block->begin())
      return nullptr;
    return &*std::prev(b.getInsertionPoint());
  }

  /// Results that all blocks gave together, in place of the old ones.
  void finish() {
    ValueRange rest(carried);
    for (Operation *op : split.inside) {
      if (!gathers(op))
        continue;
      ValueRange own = rest.take_front(gathered.lookup(op));
      rest = rest.drop_front(own.size());
      SmallVector<Value> results(own),
          operands =
              llvm::map_to_vector(op->getOperands(), [&](Value v) { return has(v) ? Value() : v; });
      if (auto blockwise = dyn_cast<BlockwiseOpInterface>(op))
        results = blockwise.buildBlocksEnd(b, operands, own);
      op->replaceAllUsesWith(results);
    }
    Operation *end = lastOp();
    for (Operation *op : split.after)
      if (op->isBeforeInBlock(end)) {
        op->moveAfter(end);
        end = op;
      }
    for (auto &[v, list] : adds)
      for (StateOpInterface add : list)
        add->erase();
    for (Operation *op : llvm::reverse(split.inside))
      op->erase();
  }

  func::CallOp call;
  StringAttr dim;
  int64_t blocks;
  Location loc;
  OpBuilder b;
  BlockSplit split;
  llvm::DenseSet<Operation *> inside;
  /// Indices of the dimension on this rank.
  int64_t extent = 0;
  /// Values from outside, and values for the outside: rows of kept tensors, or wholes.
  llvm::MapVector<Value, StateOpInterface> reads;
  llvm::MapVector<Value, SmallVector<StateOpInterface, 1>> adds;
  llvm::SetVector<Value> scanned, stacked;
  /// What goes from block to block, in the order of the operators.
  SmallVector<Value> carried;
  /// How many of them each operator has.
  llvm::DenseMap<Operation *, unsigned> gathered;
};
} // namespace

/// The one dimension of `nn.blocks` and its blocks.
static FailureOr<std::pair<StringAttr, int64_t>> blocksOf(func::FuncOp function) {
  auto dict = function->getAttrOfType<DictionaryAttr>("nn.blocks");
  auto number =
      dict && dict.size() == 1 ? dyn_cast<IntegerAttr>(dict.begin()->getValue()) : IntegerAttr();
  if (!number || number.getInt() < 1 || function.isExternal())
    return function.emitOpError("needs a body, and in nn.blocks one dimension with the number of "
                                "its blocks");
  return std::pair(dict.begin()->getName(), number.getInt());
}

LogicalResult runInBlocks(ModuleOp module) {
  for (auto function : llvm::to_vector(module.getOps<func::FuncOp>())) {
    if (!function->hasAttr("nn.blocks"))
      continue;
    auto blocks = blocksOf(function);
    auto uses = SymbolTable::getSymbolUses(function, module);
    if (failed(blocks))
      return failure();
    if (!uses)
      return function.emitOpError("is used in a way that cannot be followed");
    SmallVector<Operation *> users;
    for (SymbolTable::SymbolUse use : *uses)
      users.push_back(use.getUser());
    for (Operation *user : users) {
      auto call = dyn_cast<func::CallOp>(user);
      if (!call || call->getParentOfType<RepeatOpInterface>())
        return user->emitOpError() << "uses @" << function.getName()
                                   << ", which goes in blocks and is only called, in no repeat";
      if (failed(BlockRewriter(call, blocks->first, blocks->second).run()))
        return failure();
    }
    function.erase();
  }
  return success();
}

namespace {
struct RunInBlocksPass : impl::RunInBlocksPassBase<RunInBlocksPass> {
  void runOnOperation() override {
    if (failed(runInBlocks(getOperation())))
      signalPassFailure();
  }
};
} // namespace

} // namespace cleave

//===- RowOrderEmitter.cpp - kernels that do not walk row by row ----------===//
//
// Column sums whose lanes are the kernel's rows read memory a line at a time if
// each walks its whole column: they go over blocks of the reduced dimension, with
// the accumulators in the destination. Scatters (embedding gradients) walk tokens
// and add into the rows they name. Both keep the order of additions per element.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace cleave::cpu {

/// Steps of the reduced dimension between two visits of an accumulator: as many
/// streams (rows times operands) as the hardware fetches ahead of.
static constexpr int64_t kBlock = 4;

bool KernelEmitter::sumsInBlocks(const Nest &each) const {
  if (!kernel.lanesOverRows || each.extents.size() != 1 || each.extents[0] < 2 * kBlock)
    return false;
  return llvm::all_of(each.roots, [&](Root *root) {
    if (!root->reduction || root->firstReduction != 0)
      return false;
    return llvm::all_of(root->values, [&](const RootValue &slot) {
      // Its old contents may only be where the sum begins.
      unsigned reads = 0;
      for (Root *other : each.roots)
        for (const Load &load : other->loads)
          if (slot.dest && load.arg == slot.dest->arg)
            reads += other == root ? 1 : 2;
      return slot.dest && reads <= 1;
    });
  });
}

LogicalResult KernelEmitter::emitSumsInBlocks(const Nest &each) {
  nest = &each;
  sections.clear();
  nestDims.assign(2, LinearExpr(0));
  auto indexOf = [&](const RootValue &slot) {
    IndexList index;
    for (const LinearExpr &expr : slot.index)
      index.push_back(expr.substitute(nestDims));
    return index;
  };
  auto initialize = [&]() -> LogicalResult {
    for (Root *root : each.roots)
      for (auto [i, slot] : llvm::enumerate(root->values)) {
        FailureOr<Elem> init = initialElement(*root, i);
        if (failed(init) || failed(emitter->store(slot, indexOf(slot), *init)))
          return failure();
      }
    return success();
  };
  if (failed(forRows(initialize)))
    return failure();

  int64_t extent = each.extents[0], whole = extent / kBlock * kBlock;
  OpBuilder &b = emitter->at(0);
  auto constant = [&](int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); };
  auto blocks = scf::ForOp::create(b, loc, constant(0), constant(whole), constant(kBlock));
  blocks.getBody()->getTerminator()->erase();
  emitter->setAnchor(0, blocks);
  unsigned scope = emitter->pushScope(blocks.getBody());
  LinearExpr first = LinearExpr::dim(emitter->addDim(blocks.getInductionVar(), scope, false));
  if (failed(emitBlockOfSums(first, kBlock)))
    return failure();
  emitter->setAnchor(scope, nullptr);
  scf::YieldOp::create(emitter->at(scope), loc);
  emitter->popScope();
  emitter->setAnchor(0, nullptr);
  if (whole != extent && failed(emitBlockOfSums(LinearExpr(whole), extent - whole)))
    return failure();
  for (Root *root : each.roots)
    emitter->complete(*root, {});
  return success();
}

/// Adds `count` elements from `first` on to the accumulators of all rows.
LogicalResult KernelEmitter::emitBlockOfSums(const LinearExpr &first, int64_t count) {
  return forRows([&]() -> LogicalResult {
    nestDims[1] = LinearExpr(0);
    SmallVector<Elem> accumulators;
    auto forEachSlot = [&](function_ref<LogicalResult(const RootValue &, IndexList)> visit) {
      for (Root *root : nest->roots)
        for (const RootValue &slot : root->values) {
          IndexList index;
          for (const LinearExpr &expr : slot.index)
            index.push_back(expr.substitute(nestDims));
          if (failed(visit(slot, index)))
            return failure();
        }
      return success();
    };
    auto load = [&](const RootValue &slot, IndexList index) -> LogicalResult {
      FailureOr<Elem> old = emitter->loadStored(slot, index, /*overRows=*/true);
      if (failed(old))
        return failure();
      accumulators.push_back(*old);
      return success();
    };
    if (failed(forEachSlot(load)))
      return failure();
    SmallVector<Elem *> carried;
    for (Elem &elem : accumulators)
      carried.push_back(&elem);
    auto add = [&]() -> LogicalResult {
      nestDims[1] = nestDims[1] + first;
      return emitLeaf(accumulators);
    };
    if (failed(forRange(0, {1, 0, count}, /*lanes=*/false, carried, add)))
      return failure();
    nestDims[1] = LinearExpr(0);
    size_t next = 0;
    return forEachSlot([&](const RootValue &slot, IndexList index) {
      return emitter->store(slot, index, accumulators[next++]);
    });
  });
}

LogicalResult KernelEmitter::emitScatter(const Nest &each) {
  nest = &each;
  sections = sectionsOf(each);
  Root &root = *each.roots.front();
  nestDims.assign(1 + each.extents.size(), LinearExpr(0));

  // First the rows get their initial elements,
  auto rows = scf::ForOp::create(emitter->at(0), loc, begin, end,
                                 arith::ConstantIndexOp::create(emitter->at(0), loc, 1));
  rows.getBody()->getTerminator()->erase();
  emitter->setAnchor(0, rows);
  unsigned scope = emitter->pushScope(rows.getBody());
  nestDims[0] = LinearExpr::dim(emitter->addDim(rows.getInductionVar(), scope, false));
  if (failed(emitScatterLoops(0, /*accumulate=*/false)))
    return failure();
  scf::YieldOp::create(emitter->at(scope), loc);
  emitter->popScope();
  emitter->setAnchor(0, nullptr);

  // then each token adds to its row, in the order of tokens.
  unsigned outerLoop = 0;
  for (auto [i, expr] : llvm::enumerate(root.loops))
    if (expr.isDim(0))
      outerLoop = i;
  std::optional<Scatter> scatter = matchScatter(root.reduction, outerLoop);
  auto addToken = [&]() -> LogicalResult {
    IndexList loops;
    for (const LinearExpr &loop : root.loops)
      loops.push_back(loop.substitute(nestDims));
    FailureOr<IndexList> index = operandIndex(root.reduction, scatter->idsOperand, loops);
    if (failed(index))
      return failure();
    FailureOr<Elem> id =
        emitter->element(root.reduction->getOperand(scatter->idsOperand), std::move(*index));
    if (failed(id))
      return failure();
    unsigned outer = emitter->innermost();
    OpBuilder &b = emitter->at(outer);
    Value row = arith::IndexCastOp::create(b, loc, b.getIndexType(), id->value);
    Value above = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, row, begin);
    Value below = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, row, end);
    auto guard = scf::IfOp::create(b, loc, arith::AndIOp::create(b, loc, above, below), false);
    guard.thenBlock()->getTerminator()->erase();
    emitter->setAnchor(outer, guard);
    unsigned inside = emitter->pushScope(guard.thenBlock());
    nestDims[0] = LinearExpr::dim(emitter->addDim(row, inside, false));
    LogicalResult result = emitScatterLoops(0, /*accumulate=*/true);
    scf::YieldOp::create(emitter->at(inside), loc);
    emitter->popScope();
    emitter->setAnchor(outer, nullptr);
    return result;
  };
  std::function<LogicalResult(unsigned)> forTokens = [&](unsigned pos) -> LogicalResult {
    if (pos == each.extents.size())
      return addToken();
    return forRange(pos, {1, 0, each.extents[pos]}, false, {}, [&] { return forTokens(pos + 1); });
  };
  return forTokens(root.firstReduction);
}

/// The loops over one row of a scatter: stores initial elements, or adds.
LogicalResult KernelEmitter::emitScatterLoops(unsigned pos, bool accumulate) {
  if (pos < nest->firstReduction) {
    auto inner = [&] { return emitScatterLoops(pos + 1, accumulate); };
    if (nest->laneDim != pos)
      return forRange(pos, {1, 0, nest->extents[pos]}, false, {}, inner);
    for (const Section &section : sections)
      if (failed(forRange(pos, section, true, {}, inner)))
        return failure();
    return success();
  }
  Root &root = *nest->roots.front();
  const RootValue &slot = root.values.front();
  IndexList index, loops;
  for (const LinearExpr &expr : slot.index)
    index.push_back(expr.substitute(nestDims));
  FailureOr<Elem> elem = failure();
  if (accumulate) {
    for (const LinearExpr &loop : root.loops)
      loops.push_back(loop.substitute(nestDims));
    FailureOr<Elem> old = emitter->loadStored(slot, index, /*overRows=*/true);
    if (failed(old))
      return failure();
    FailureOr<SmallVector<Elem, 2>> sum = emitter->body(root.reduction, loops, {*old});
    if (succeeded(sum))
      elem = sum->front();
  } else {
    elem = initialElement(root, 0);
  }
  return failed(elem) ? failure() : emitter->store(slot, index, *elem);
}

} // namespace cleave::cpu

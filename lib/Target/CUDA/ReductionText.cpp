//===- ReductionText.cpp - sums and their like over a team ----------------===//
//
// A reduction of a whole row is shared by its team: each thread folds every n-th
// element, then partial results meet in a fixed tree. Reductions inside a row
// (many results) are either dealt out, one to a thread, or shared one by one.
//
//===----------------------------------------------------------------------===//

#include "KernelText.h"
#include "ScalarText.h"

using namespace mlir;

namespace cleave::cuda {

/// Below this a reduction is not worth sharing.
static constexpr int64_t kLeastShared = 32;

FailureOr<Item> KernelText::initialElement(const Root &root, unsigned result) {
  linalg::GenericOp op = root.reduction;
  return text.element(op.getDpsInitOperand(result)->get(), indexOf(root.values[result].index));
}

LogicalResult KernelText::writeReductions() {
  bool reassociable = true, elements = false, apart = false;
  for (const Root *root : nest->roots) {
    elements |= !root->reduction;
    apart |= root->reduction && root->firstReduction != nest->firstReduction;
    for (unsigned i = 0; root->reduction && i < root->values.size(); ++i) {
      Operation *combiner = matchCombiner(root->reduction, i);
      reassociable &= combiner && combinerText(combiner);
    }
  }
  if (apart)
    return func::FuncOp(kernel.func).emitError("reductions of different shapes share a loop");
  const bool scatter = isScatter(*nest);
  int64_t results = productOf(ArrayRef(nest->extents).take_front(nest->firstReduction));
  int64_t folded = productOf(ArrayRef(nest->extents).drop_front(nest->firstReduction));
  if (nest->firstReduction == 0 && (reassociable || geometry.teamSize == 1))
    return writeTeamReduction();
  if (nest->firstReduction == 0) {
    if (elements)
      return func::FuncOp(kernel.func).emitError("elements share a loop with a reduction in order");
    return writeThreadReductions(/*everyThread=*/true);
  }
  bool dealOut = scatter || geometry.teamSize == 1 || !reassociable || folded < kLeastShared ||
                 2 * results >= geometry.teamSize;
  if (dealOut)
    return writeThreadReductions(/*everyThread=*/false);
  Walk each{0, nest->firstReduction, false, "0", "1", 1};
  return forWalk(each, [&] { return writeTeamReduction(); });
}

/// Declares one accumulator per result of every reduction in the nest.
FailureOr<std::vector<KernelText::Accumulator>> KernelText::startAccumulators(bool fromInitial) {
  std::vector<Accumulator> accumulators;
  for (Root *root : nest->roots)
    for (unsigned i = 0; root->reduction && i < root->values.size(); ++i) {
      Type type = getElementTypeOrSelf(root->values[i].value.getType());
      std::string start;
      if (fromInitial) {
        FailureOr<Item> initial = initialElement(*root, i);
        if (failed(initial))
          return failure();
        start = text.operand(*initial);
      } else {
        start = combinerText(matchCombiner(root->reduction, i))->neutral;
      }
      std::string name = text.freshName("acc");
      text.line(text.innermost(), text.typeOf(type) + " " + name + " = " + start + ";");
      accumulators.push_back({root, i, {name, type, text.innermost(), std::nullopt}});
    }
  return accumulators;
}

/// All threads of the team fold their share of one result.
LogicalResult KernelText::writeTeamReduction() {
  bool alone = geometry.teamSize == 1;
  FailureOr<std::vector<Accumulator>> accumulators = startAccumulators(/*fromInitial=*/alone);
  if (failed(accumulators))
    return failure();
  Walk walk{nest->firstReduction,
            unsigned(nest->extents.size()),
            false,
            rank(),
            std::to_string(geometry.teamSize),
            groupOf(kernel, *nest, geometry.team)};
  if (failed(forWalk(walk, [&] { return writeLeaf(*accumulators); })))
    return failure();
  return finish(*accumulators, /*acrossTeam=*/!alone);
}

/// Every result is folded in order by one thread, or by `everyThread` alike.
LogicalResult KernelText::writeThreadReductions(bool everyThread) {
  std::string size = std::to_string(geometry.teamSize);
  Walk results{0, nest->firstReduction, false, everyThread ? "0" : rank(), everyThread ? "1" : size,
               1};
  return forWalk(results, [&]() -> LogicalResult {
    FailureOr<std::vector<Accumulator>> accumulators = startAccumulators(/*fromInitial=*/true);
    if (failed(accumulators))
      return failure();
    Walk folded{nest->firstReduction, unsigned(nest->extents.size()), false, "0", "1", 1};
    auto leaf = [&] {
      return isScatter(*nest) ? writeScatterLeaf(*accumulators) : writeLeaf(*accumulators);
    };
    if (failed(forWalk(folded, leaf)))
      return failure();
    return finish(*accumulators, /*acrossTeam=*/false);
  });
}

/// One token of a scatter: counts if its id names this row.
LogicalResult KernelText::writeScatterLeaf(MutableArrayRef<Accumulator> accumulators) {
  Root &root = *nest->roots.front();
  unsigned outerLoop = 0;
  for (auto [i, expr] : llvm::enumerate(root.loops))
    if (expr.isDim(0))
      outerLoop = i;
  std::optional<Scatter> scatter = matchScatter(root.reduction, outerLoop);
  FailureOr<IndexList> index =
      operandIndex(root.reduction, scatter->idsOperand, indexOf(root.loops));
  if (failed(index))
    return failure();
  FailureOr<Item> id = text.element(root.reduction->getOperand(scatter->idsOperand), *index);
  if (failed(id))
    return failure();
  text.open("if (" + text.operand(*id) + " == row)");
  if (failed(writeLeaf(accumulators)))
    return failure();
  text.close();
  return success();
}

FailureOr<std::string> KernelText::combineAcrossTeam(const Accumulator &accumulator,
                                                     const Item &initial) {
  Operation *combiner = matchCombiner(accumulator.root->reduction, accumulator.result);
  std::string op = combinerText(combiner)->type, type = text.typeOf(accumulator.item.type);
  std::string total;
  if (geometry.team == Team::Warp) {
    total = "reduceWarp<" + op + ">(" + accumulator.item.text + ")";
  } else {
    bool column = geometry.team == Team::Column;
    unsigned parts = column ? geometry.teamSize : geometry.threads;
    total = std::string(column ? "reduceColumn<" : "reduceBlock<") + op + ", " +
            std::to_string(parts) + ">(" + accumulator.item.text + ", scratch_" + type + ")";
    scratchTypes.insert(type);
  }
  return op + "::combine(" + text.operand(initial) + ", " + total + ")";
}

/// Names the final values, and stores those that have a place.
LogicalResult KernelText::finish(ArrayRef<Accumulator> accumulators, bool acrossTeam) {
  llvm::MapVector<Root *, SmallVector<Item>> scalars;
  for (const Accumulator &accumulator : accumulators) {
    Item value = accumulator.item;
    if (acrossTeam) {
      FailureOr<Item> initial = initialElement(*accumulator.root, accumulator.result);
      if (failed(initial))
        return failure();
      FailureOr<std::string> total = combineAcrossTeam(accumulator, *initial);
      if (failed(total))
        return failure();
      value.text = text.freshName("total");
      text.line(text.innermost(),
                "const " + text.typeOf(value.type) + " " + value.text + " = " + *total + ";");
    }
    bool whole = accumulator.root->firstReduction == 0;
    value.scope = whole ? 0 : text.innermost();
    scalars[accumulator.root].push_back(value);
    const RootValue &slot = accumulator.root->values[accumulator.result];
    if (slot.dest || slot.buffer)
      text.store(slot, indexOf(slot.index), value, guard(/*leaderOnly=*/acrossTeam || whole));
  }
  for (auto &[root, values] : scalars)
    if (root->firstReduction == 0)
      text.complete(*root, values);
  return success();
}

} // namespace cleave::cuda

//===- WriteOut.cpp - Layers that are one of their kind, as they follow ----===//
//
// A repeat that runs once has no turn beside which another's exchanges could run. Layers that
// alternate in kind are such repeats, one behind the other:
//
//   %a, %s = nn.repeat 1 carry(%x) { call @f … }          %a, %t = call @f(%x)
//   %b = nn.repeat 1 reverse carry(%y) scan(%s) { … }  →  %b = call @g(%y, %t)
//
// What one stacks and another scans is one slice, and goes straight from one to the other.
//
//===----------------------------------------------------------------------===//

#include "cleave/Transforms/Overlap/Overlap.h"
#include "dialects/Interfaces/Interfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
namespace cleave {

#define GEN_PASS_DEF_WRITEOUTLAYERSPASS
#include "lib/Transforms/Overlap/Passes.h.inc"

namespace {
/// The repeats of one block.
class BlockWriter {
public:
  explicit BlockWriter(Block &block) {
    for (auto repeat : block.getOps<RepeatOpInterface>())
      if (repeat.getIterations() == 1 && repeat->hasAttr("layers") &&
          !repeat.getRepeatedBlock().getOps<CallOpInterface>().empty())
        repeats.insert(repeat);
  }

  unsigned run() {
    while (dropOne())
      continue;
    for (Operation *repeat : repeats)
      write(cast<RepeatOpInterface>(repeat));
    for (Operation *repeat : llvm::reverse(repeats))
      repeat->erase();
    return repeats.size();
  }

private:
  /// Drops a repeat whose slices are needed as the whole that they are stacked to.
  bool dropOne() {
    for (Operation *repeat : repeats)
      if (!hasSlicesAlone(cast<RepeatOpInterface>(repeat))) {
        repeats.remove(repeat);
        return true;
      }
    return false;
  }

  bool hasSlicesAlone(RepeatOpInterface repeat) const {
    const unsigned carried = repeat.getNumCarried();
    Operation *end = repeat.getRepeatedBlock().getTerminator();
    for (unsigned i = carried; i < repeat->getNumResults(); ++i)
      for (OpOperand &use : repeat->getResult(i).getUses()) {
        auto other = dyn_cast<RepeatOpInterface>(use.getOwner());
        const unsigned number = use.getOperandNumber();
        if (!other || !repeats.contains(other) || number < other.getNumCarried() ||
            other.getRepeatedBlock().getArgument(number).getType() != end->getOperand(i).getType())
          return false;
      }
    return llvm::all_of(repeat->getOperands().drop_front(carried), [&](Value whole) {
      auto maker = whole.getDefiningOp<RepeatOpInterface>();
      return maker && repeats.contains(maker) &&
             cast<OpResult>(whole).getResultNumber() >= maker.getNumCarried();
    });
  }

  /// Puts the block in front of its repeat, which then is used by repeats behind it alone.
  void write(RepeatOpInterface repeat) {
    Block &block = repeat.getRepeatedBlock();
    const unsigned carried = repeat.getNumCarried();
    const int64_t layer = repeat->getAttrOfType<DenseI64ArrayAttr>("layers")[0];
    for (auto [i, argument] : llvm::enumerate(block.getArguments())) {
      Value given = repeat->getOperand(i);
      argument.replaceAllUsesWith(i < carried ? given : slices.lookup(given));
    }
    Operation *end = block.getTerminator();
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
      nameLayer(&op, layer);
      op.moveBefore(repeat);
    }
    for (auto [i, result] : llvm::enumerate(repeat->getResults()))
      if (i < carried)
        result.replaceAllUsesWith(end->getOperand(i));
      else
        slices[result] = end->getOperand(i);
  }

  /// In the path, where that leaves room for it.
  static void nameLayer(Operation *op, int64_t layer) {
    Builder b(op->getContext());
    auto path = op->getAttrOfType<StringAttr>("nn.path");
    if (!path || !path.getValue().contains('*')) {
      op->setAttr(dist::kLayerAttr, b.getI64IntegerAttr(layer));
      return;
    }
    auto [before, behind] = path.getValue().split('*');
    op->setAttr("nn.path", b.getStringAttr(before + Twine(layer) + behind));
  }

  llvm::SetVector<Operation *> repeats;
  /// What is stacked to a whole.
  llvm::DenseMap<Value, Value> slices;
};

struct WriteOutLayersPass : impl::WriteOutLayersPassBase<WriteOutLayersPass> {
  void runOnOperation() override { numWritten += writeOutLayers(getOperation()); }
};
} // namespace

unsigned writeOutLayers(ModuleOp module) {
  unsigned count = 0;
  if (!module->hasAttr(dist::kOverlapAttr))
    return count;
  for (auto function : module.getOps<FunctionOpInterface>())
    if (!function.isExternal())
      count += BlockWriter(function.getFunctionBody().front()).run();
  return count;
}

} // namespace cleave

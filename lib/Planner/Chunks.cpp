//===- Chunks.cpp - How many pieces the last kind runs in ------------------===//

#include "lib/Planner/Chunks.h"
#include "cleave/Analysis/Chunks.h"
#include "dialects/NN/NN.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
namespace cleave {

namespace {
class ChunkPolicy {
public:
  ChunkPolicy(plan::SolutionOp solution, func::FuncOp joint)
      : solution(solution), joint(joint), axes(solution),
        batch(plan::entry<plan::BatchOp>(solution)), layout(plan::entry<plan::LayoutOp>(solution)) {
  }

  /// Pieces along batch and sequence, so that no value has more than `largest` bytes.
  SmallVector<std::pair<StringRef, int64_t>> choose(int64_t largest) {
    int64_t wanted = llvm::divideCeil(largestValue(), largest);
    SmallVector<std::pair<StringRef, int64_t>> chosen;
    for (StringRef dim : {"batch", "sequence"}) {
      if (wanted == 1 || findChunkObstacle(joint, dim))
        break; // slices are contiguous only if the dimension before is cut to the end
      int64_t size = dim == "batch" ? int64_t(batch.getMicro()) : int64_t(batch.getSequence());
      int64_t ways = dim == "batch" ? 1 : axes.ways(layout.getDims(), dim);
      if (size % ways != 0)
        break;
      int64_t pieces = divisorNear(size / ways, wanted);
      chosen.push_back({dim, pieces});
      if (pieces < size / ways)
        break;
      wanted = llvm::divideCeil(wanted, pieces);
    }
    if (llvm::all_of(chosen, [](auto &entry) { return entry.second == 1; }))
      chosen.clear();
    return chosen;
  }

private:
  /// The smallest divisor of `size` from `wanted` on; the largest below it if that is
  /// more than four times as many.
  static int64_t divisorNear(int64_t size, int64_t wanted) {
    if (wanted >= size)
      return size;
    int64_t above = wanted, below = wanted;
    while (size % above != 0)
      ++above;
    while (size % below != 0)
      --below;
    return above > 4 * wanted ? below : above;
  }

  /// Bytes of the largest value that the kind makes of a micro-batch on one rank.
  int64_t largestValue() {
    llvm::StringMap<DictionaryAttr> factors;
    StringRef kind = joint->getAttrOfType<FlatSymbolRefAttr>("nn.joint").getValue();
    for (auto assign : solution.getOps<plan::AssignOp>())
      if (assign.getKind() == kind)
        factors[assign.getPath()] = assign.getFactors();
    int64_t most = 1;
    for (Operation &op : joint.getBody().front().without_terminator()) {
      auto path = op.getAttrOfType<StringAttr>("nn.path");
      DictionaryAttr cuts = path ? factors.lookup(path.getValue()) : DictionaryAttr();
      for (Value v : op.getResults())
        if (nn::findDim(v.getType(), "batch") >= 0)
          most = std::max(most, bytesOf(cast<RankedTensorType>(v.getType()), cuts));
    }
    return most;
  }

  int64_t bytesOf(RankedTensorType type, DictionaryAttr cuts) {
    int64_t bytes = type.getElementTypeBitWidth() / 8;
    for (auto [name, size] : llvm::zip(nn::dimNames(type), type.getShape())) {
      int64_t elements = size;
      if (name == "batch")
        elements = batch.getMicro();
      else if (name == "sequence" && ShapedType::isDynamic(size))
        elements = batch.getSequence();
      elements = llvm::divideCeil(elements, name == "batch" ? 1 : axes.ways(cuts, name.getValue()));
      if (llvm::MulOverflow(bytes, elements, bytes))
        return std::numeric_limits<int64_t>::max() / 2;
    }
    return bytes;
  }

  plan::SolutionOp solution;
  func::FuncOp joint;
  plan::AxisTable axes;
  plan::BatchOp batch;
  plan::LayoutOp layout;
};
} // namespace

/// The kind that makes the result of `@forward`, if it makes nothing else.
static StringRef lastKind(ModuleOp model) {
  auto forward = model.lookupSymbol<func::FuncOp>("forward");
  if (!forward || forward.isExternal())
    return "";
  Operation *end = forward.getBody().front().getTerminator();
  auto call = end->getNumOperands() == 1 ? end->getOperand(0).getDefiningOp<func::CallOp>()
                                         : func::CallOp();
  return call && call.getNumResults() == 1 ? call.getCallee() : "";
}

void writeChunks(plan::SolutionOp solution, ModuleOp model, int64_t largest) {
  StringRef kind = lastKind(model);
  auto joint = model.lookupSymbol<func::FuncOp>((kind + ".joint").str());
  if (kind.empty() || !joint)
    return;
  auto chosen = ChunkPolicy(solution, joint).choose(largest);
  if (chosen.empty())
    return;
  SmallVector<StringRef> along;
  SmallVector<int64_t> pieces;
  for (auto [dim, number] : chosen) {
    along.push_back(dim);
    pieces.push_back(number);
  }
  OpBuilder b = OpBuilder::atBlockEnd(&solution.getBody().front());
  plan::ChunkOp::create(b, solution.getLoc(), kind, b.getStrArrayAttr(along), pieces);
}

} // namespace cleave

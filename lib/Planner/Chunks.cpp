//===- Chunks.cpp - How many pieces the last kind runs in ------------------===//

#include "lib/Planner/Chunks.h"
#include "cleave/Analysis/Blocks.h"
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

  using Pieces = SmallVector<std::pair<StringRef, int64_t>>;

  /// Pieces so that no value has more than `largest` bytes: of the tokens, which needs
  /// no value twice, or else of another dimension of the largest value.
  Pieces choose(func::FuncOp kind, int64_t largest) {
    auto [value, bytes] = largestValue();
    int64_t wanted = llvm::divideCeil(bytes, largest);
    Pieces tokens = chooseTokens(wanted);
    int64_t made = 1;
    for (auto &[dim, pieces] : tokens)
      made *= pieces;
    if (made < wanted)
      for (StringAttr dim : nn::dimNames(value.getType()))
        if (dim != "batch" && dim != "sequence" && !findBlockObstacle(joint, dim)) {
          int64_t blocks = equalPieces(solution, kind, dim, wanted).value_or(wanted);
          if (blocks <= 16 * wanted) // many small pieces cost more than they save
            return {{dim.getValue(), blocks}};
        }
    return tokens;
  }

private:
  Pieces chooseTokens(int64_t wanted) {
    Pieces chosen;
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

  /// The largest value that the kind makes of a micro-batch, and its bytes on one rank.
  std::pair<Value, int64_t> largestValue() {
    llvm::StringMap<DictionaryAttr> factors;
    StringRef kind = joint->getAttrOfType<FlatSymbolRefAttr>("nn.joint").getValue();
    for (auto assign : solution.getOps<plan::AssignOp>())
      if (assign.getKind() == kind)
        factors[assign.getPath()] = assign.getFactors();
    std::pair<Value, int64_t> most = {Value(), 1};
    for (Operation &op : joint.getBody().front().without_terminator()) {
      auto path = op.getAttrOfType<StringAttr>("nn.path");
      DictionaryAttr cuts = path ? factors.lookup(path.getValue()) : DictionaryAttr();
      for (Value v : op.getResults())
        if (nn::findDim(v.getType(), "batch") >= 0)
          if (int64_t bytes = bytesOf(cast<RankedTensorType>(v.getType()), cuts);
              bytes > most.second)
            most = {v, bytes};
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

StringRef lastKind(ModuleOp model) {
  auto forward = model.lookupSymbol<func::FuncOp>("forward");
  if (!forward || forward.isExternal())
    return "";
  Operation *end = forward.getBody().front().getTerminator();
  auto call =
      end->getNumOperands() > 0 ? end->getOperand(0).getDefiningOp<func::CallOp>() : func::CallOp();
  return call && call.getNumResults() == 1 ? call.getCallee() : "";
}

/// Whether the gradient of a parameter that `kind` reads is summed as it comes: the plan overlaps
/// exchanges, and there is one contribution on a rank, of one micro-batch and one kind.
static bool isSummedAsItComes(plan::SolutionOp solution, func::FuncOp kind, StringAttr parameter) {
  plan::AxisTable axes(solution);
  auto batch = plan::entry<plan::BatchOp>(solution);
  int64_t ways = axes.ways(plan::entry<plan::LayoutOp>(solution).getDims(), "batch");
  if (!plan::entry<plan::OverlapOp>(solution) || batch.getGlobal() != batch.getMicro() * ways ||
      axes.size(plan::tokenAxes(solution)) == 1)
    return false;
  // Stages of a pipeline have a copy each.
  if (plan::entry<plan::PipelineOp>(solution))
    return true;
  auto reads = [&](func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (function.getArgAttrOfType<StringAttr>(i, "nn.parameter") == parameter)
        return !function->hasAttr("nn.joint");
    return false;
  };
  return llvm::count_if(kind->getParentOfType<ModuleOp>().getOps<func::FuncOp>(), reads) == 1;
}

std::optional<int64_t> equalPieces(plan::SolutionOp solution, func::FuncOp kind, StringRef dim,
                                   int64_t pieces) {
  plan::AxisTable axes(solution);
  auto expand = [&](DictionaryAttr places, StringRef name) {
    auto list = places ? places.getAs<ArrayAttr>(name) : ArrayAttr();
    return list ? axes.expand(list) : SmallVector<StringAttr>();
  };
  auto tokens = plan::tokenAxes(solution);
  auto isOfTokens = [&](StringAttr axis) { return llvm::is_contained(tokens, axis); };
  for (unsigned i = 0; i < kind.getNumArguments(); ++i) {
    auto name = kind.getArgAttrOfType<StringAttr>(i, "nn.parameter");
    auto type = cast<RankedTensorType>(kind.getArgumentTypes()[i]);
    int d = nn::findDim(type, dim);
    if (!name || d < 0)
      continue;
    // Not listed: whole on every rank.
    SmallVector<DictionaryAttr> places(2);
    for (auto p : solution.getOps<plan::ParameterOp>())
      if (p.getName() == name.getValue())
        places = p.getPlaces();
    bool passes = isSummedAsItComes(solution, kind, name);
    for (StringAttr any : nn::dimNames(type))
      passes |= llvm::any_of(expand(places[0], any), isOfTokens) ||
                llvm::any_of(expand(places[1], any), isOfTokens);
    if (!passes)
      continue;
    SmallVector<StringAttr> own = expand(places[0], dim);
    llvm::erase_if(own, isOfTokens);
    int64_t extent = llvm::divideCeil(type.getDimSize(d), axes.size(own));
    int64_t equal = std::min(pieces, extent);
    while (extent % equal != 0)
      ++equal;
    return equal;
  }
  return std::nullopt;
}

void writeChunks(plan::SolutionOp solution, ModuleOp model, int64_t largest) {
  StringRef kind = lastKind(model);
  auto joint = model.lookupSymbol<func::FuncOp>((kind + ".joint").str());
  if (kind.empty() || !joint)
    return;
  // Such a plan is refused when it is checked; its divisors take long to find.
  auto batch = plan::entry<plan::BatchOp>(solution);
  if (static_cast<int64_t>(batch.getMicro()) > std::numeric_limits<int32_t>::max())
    return;
  auto chosen =
      ChunkPolicy(solution, joint).choose(model.lookupSymbol<func::FuncOp>(kind), largest);
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

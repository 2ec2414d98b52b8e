//===- ApplyPlan.cpp - Turn decisions into annotated functions -------------===//

#include "cleave/Transforms/ApplyPlan/ApplyPlan.h"
#include "cleave/Transforms/Sizes/Sizes.h"
#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "lib/Transforms/ApplyPlan/Entries.h"
#include "lib/Transforms/ApplyPlan/Precondition.h"
#include "lib/Transforms/ApplyPlan/Split.h"

using namespace mlir;
namespace cleave {

namespace {
class Annotator {
public:
  Annotator(ModuleOp module, plan::SolutionOp solution)
      : module(module), solution(solution), axes(solution), tokenAxes(plan::tokenAxes(solution)),
        context(module.getContext()) {}

  /// The mesh; of one place in a pipeline, without the pipeline's axes.
  void addMesh() {
    OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
    SmallVector<Attribute> names;
    SmallVector<int64_t> sizes;
    auto pipeline = module->getAttrOfType<ArrayAttr>("pipe.axes");
    for (auto [name, size] : llvm::zip(axes.names, axes.sizes))
      if (!pipeline || !llvm::is_contained(pipeline, name)) {
        names.push_back(name);
        sizes.push_back(size);
      }
    dist::MeshOp::create(b, solution.getLoc(), "mesh", b.getArrayAttr(names), sizes);
  }

  void noteOverlap() {
    if (auto overlap = plan::entry<plan::OverlapOp>(solution)) {
      IntegerAttr bytes = overlap.getBucketAttr();
      module->setAttr(dist::kOverlapAttr, bytes ? Attribute(bytes) : UnitAttr::get(context));
    }
  }

  /// Where each parameter's tensors lie. Gradients that are summed beside the computation
  /// are summed as they come where they come once: there is nothing to add up before. A
  /// table that two kinds read has two. Of several micro-batches the last one sums what
  /// ranks have each a part of.
  void placeParameters() {
    auto batch = plan::entry<plan::BatchOp>(solution);
    const bool hasOneMicroBatch = plan::entry<plan::OverlapOp>(solution) &&
                                  batch.getGlobal() == batch.getMicro() * ways("batch");
    const bool sumsInLast = plan::entry<plan::OverlapOp>(solution) && !hasOneMicroBatch;
    llvm::StringMap<StringRef> nameOf = layerNames();
    llvm::StringMap<int64_t> reads;
    module.walk([&](StateOpInterface state) { ++reads[state.getStateSymbol()]; });
    for (auto p : module.getOps<nn::ParameterOp>()) {
      auto places = placesOf(nameOf.lookup(p.getSymName()));
      // What several places of a pipeline have, they add up when all are done.
      if (sumsInLast && !isCutByTokens(places[1]) && !p->hasAttr("pipe.sharers"))
        p->setAttr(kSumInLastAttr, UnitAttr::get(context));
      if (hasOneMicroBatch && reads.lookup(p.getSymName()) == 1) {
        places[1] = places[2];
        SmallVector<Attribute> complete(tokenAxes.begin(), tokenAxes.end());
        p->setAttr("dist.complete", ArrayAttr::get(context, complete));
      }
      for (auto [slot, place] : {std::pair("value", places[0]), std::pair("gradient", places[1]),
                                 std::pair("moment1", places[2]), std::pair("moment2", places[2]),
                                 std::pair("reduced", places[2])})
        p->setAttr((Twine("dist.") + slot).str(), sharded(p.getTensorType(), place));
    }
  }

  /// Writes `dist.factors` on every operator whose path the plan assigns.
  void assign(func::FuncOp function, StringRef kind) {
    llvm::StringMap<DictionaryAttr> byPath;
    for (auto a : solution.getOps<plan::AssignOp>())
      if (a.getKind() == kind)
        byPath[a.getPath()] = a.getFactors();
    for (Operation &op : function.getBody().getOps())
      if (auto path = op.getAttrOfType<StringAttr>("nn.path"))
        if (auto it = byPath.find(path.getValue()); it != byPath.end())
          op.setAttr("dist.factors", expanded(it->second));
  }

  /// Places what passes between layers, in and out of a kind's two halves.
  void placeBoundary(SplitKind &kind, func::FuncOp original) {
    for (unsigned i = 0; i < kind.forward.getNumArguments(); ++i)
      kind.forward.setArgAttr(i, "dist.sharding", placeOfArgument(original, i, kind.forward, i));
    for (unsigned i = 0; i < kind.results; ++i)
      if (cast<RankedTensorType>(kind.forward.getResultTypes()[i]).getRank() > 0)
        kind.forward.setResultAttr(i, "dist.sharding", layout(kind.forward.getResultTypes()[i]));
    for (auto [i, input] : llvm::enumerate(kind.inputs))
      if (input.source == BackwardInput::Argument &&
          original.getArgAttr(input.index, "nn.parameter"))
        kind.backward.setArgAttr(i, "dist.sharding",
                                 placeOfArgument(original, input.index, kind.backward, i));
    unsigned first = kind.inputs.size();
    for (auto [i, r] : llvm::enumerate(kind.activeResults))
      kind.backward.setArgAttr(first + i, "dist.sharding",
                               layout(kind.backward.getArgumentTypes()[first + i]));
    for (auto [i, a] : llvm::enumerate(kind.activeArguments))
      if (!original.getArgAttr(a, "nn.parameter"))
        kind.backward.setResultAttr(i, "dist.sharding", layout(kind.backward.getResultTypes()[i]));
  }

  /// Tells operators of a joint graph that tokens come in order, where they do: what
  /// `kind` is given as positions are then the numbers of the rows.
  void orderTokens(func::FuncOp joint, func::FuncOp kind) {
    if (zigzagBlocks() != 1)
      return;
    auto isPosition = [&](Value v) {
      auto argument = dyn_cast<BlockArgument>(v);
      auto name = argument && argument.getArgNumber() < kind.getNumArguments()
                      ? kind.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "nn.name")
                      : StringAttr();
      return name && name.getValue() == "positions";
    };
    joint.walk([&](TokenOrderOpInterface op) {
      auto positions = op.getTokenPositions();
      if (!positions.empty() && llvm::all_of(positions, isPosition))
        op.setTokensOrdered();
    });
  }

  /// Between how many blocks of a sequence the tokens are dealt out in zig-zag.
  int64_t zigzagBlocks() {
    auto zigzag = plan::entry<plan::BatchOp>(solution).getZigzag();
    return zigzag ? axes.size(axes.expand(*zigzag)) : 1;
  }

  /// Inputs of entries are dealt out along the batch alone, sequences in the order of
  /// the plan; scalars are everywhere. What passes between stages lies as between
  /// layers; what a stage keeps for its way back lies as it is made.
  void placeEntry(func::FuncOp entry) {
    for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
      Type type = entry.getArgumentTypes()[i];
      if (!entry.getArgAttr(i, "dist.as"))
        entry.setArgAttr(i, "dist.sharding", layout(type));
      const bool isGiven = !isa<FloatType>(getElementTypeOrSelf(type));
      if (int64_t blocks = zigzagBlocks();
          isGiven && blocks != 1 && nn::findDim(type, "sequence") >= 0)
        entry.setArgAttr(i, "nn.zigzag", Builder(context).getI64IntegerAttr(blocks));
    }
    for (unsigned i = 0; i < entry.getNumResults(); ++i)
      if (!entry.getResultAttr(i, "nn.tape"))
        entry.setResultAttr(i, "dist.sharding", layout(entry.getResultTypes()[i]));
    // What is made of nothing lies as between layers, too.
    entry.walk([&](ShardingRuleOpInterface op) {
      if (op->getNumOperands() == 0 && op->getNumResults() == 1 && !op->hasAttr("dist.factors"))
        op->setAttr("dist.factors", factorsOf(op->getResultTypes()[0]));
    });
  }

  /// Factors that cut a value as it lies between layers; none of scalars.
  DictionaryAttr factorsOf(Type type) {
    NamedAttrList factors;
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (dist::ShardingAttr sharding = layout(type); sharding && tensor)
      for (auto [d, name] : llvm::enumerate(nn::dimNames(tensor))) {
        SmallVector<Attribute> cut;
        llvm::append_range(cut, sharding.axes(d));
        if (!cut.empty())
          factors.set(name, ArrayAttr::get(context, cut));
      }
    return factors.getDictionary(context);
  }

  /// How many ways values between layers are cut along `dim`.
  int64_t ways(StringRef dim) {
    return axes.ways(plan::entry<plan::LayoutOp>(solution).getDims(), dim);
  }

  /// The paths whose results `kind` keeps for its backward, if not all.
  std::optional<llvm::StringSet<>> savedOf(StringRef kind) {
    for (auto recompute : solution.getOps<plan::RecomputeOp>())
      if (recompute.getKind() == kind) {
        llvm::StringSet<> paths;
        for (StringRef path : recompute.getSaved().getAsValueRange<StringAttr>())
          paths.insert(path);
        return paths;
      }
    return std::nullopt;
  }

  /// The dimension of inner values that `kind` goes through in blocks, and how many,
  /// if the plan says so.
  std::optional<std::pair<StringRef, int64_t>> blocksOf(StringRef kind) {
    for (auto chunk : solution.getOps<plan::ChunkOp>())
      if (chunk.getKind() == kind && !chunk.isOfTokens())
        return std::pair(cast<StringAttr>(chunk.getAlong()[0]).getValue(), chunk.getPieces()[0]);
    return std::nullopt;
  }

  /// The pieces of the tokens of `kind`, if the plan runs it in such.
  std::optional<Chunks> chunksOf(StringRef kind) {
    for (auto chunk : solution.getOps<plan::ChunkOp>())
      if (chunk.getKind() == kind && chunk.isOfTokens()) {
        Chunks chunks{chunk.getAlong(), SmallVector<int64_t>(chunk.getPieces()), {}};
        for (StringRef name : chunk.getAlong().getAsValueRange<StringAttr>())
          chunks.blocks.push_back(ways(name));
        return chunks;
      }
    return std::nullopt;
  }

private:
  /// Whether a tensor is cut by all axes that deal out tokens, so that each rank has sums.
  bool isCutByTokens(DictionaryAttr places) {
    llvm::DenseSet<StringAttr> cut;
    if (places)
      for (NamedAttribute place : places)
        for (StringAttr axis : axes.expand(cast<ArrayAttr>(place.getValue())))
          cut.insert(axis);
    return llvm::all_of(
        tokenAxes, [&](StringAttr axis) { return axes.size({axis}) == 1 || cut.contains(axis); });
  }

  /// Stored, gradient and optimizer places of the parameter called `name` in a layer.
  SmallVector<DictionaryAttr> placesOf(StringRef name) {
    for (auto p : solution.getOps<plan::ParameterOp>())
      if (p.getName() == name)
        return p.getPlaces();
    return {{}, {}, {}};
  }

  /// The mesh axes by which operators of `half`, of the kind `kind`, cut the dimensions of
  /// its argument `i`.
  llvm::DenseSet<StringAttr> axesOfReaders(StringRef kind, func::FuncOp half, unsigned i) {
    llvm::DenseSet<StringAttr> found;
    for (OpOperand &use : half.getArgument(i).getUses()) {
      auto path = use.getOwner()->getAttrOfType<StringAttr>("nn.path");
      auto sharded = dyn_cast<ShardingRuleOpInterface>(use.getOwner());
      if (!path || !sharded)
        continue;
      ShardingRule rule = sharded.getShardingRule();
      for (auto a : solution.getOps<plan::AssignOp>())
        for (NamedAttribute factor : a.getFactors())
          if (a.getKind() == kind && a.getPath() == path.getValue() &&
              llvm::is_contained(rule.operands[use.getOperandNumber()],
                                 rule.find(factor.getName())))
            for (StringAttr axis : axes.expand(cast<ArrayAttr>(factor.getValue())))
              found.insert(axis);
    }
    return found;
  }

  /// Where argument `i` of `half` lies, which is argument `index` of `original`: a
  /// parameter as it is stored, but whole along the axes that deal out tokens, unless
  /// operators cut it by them (experts that are dealt out).
  dist::ShardingAttr placeOfArgument(func::FuncOp original, unsigned index, func::FuncOp half,
                                     unsigned i) {
    Type type = half.getArgumentTypes()[i];
    auto name = original.getArgAttrOfType<StringAttr>(index, "nn.parameter");
    if (!name)
      return layout(type);
    auto stored = sharded(type, placesOf(name.getValue())[0]);
    auto read = axesOfReaders(original.getName(), half, i);
    SmallVector<SmallVector<StringAttr>> dims;
    for (unsigned d = 0; d < stored.getDims().size(); ++d) {
      dims.push_back(stored.axes(d));
      llvm::erase_if(dims.back(), [&](StringAttr a) {
        return llvm::is_contained(tokenAxes, a) && !read.contains(a);
      });
    }
    return dist::ShardingAttr::get(context, dims, ArrayRef<StringAttr>());
  }

  /// Symbol of a parameter → its name in its layer, from the calls.
  llvm::StringMap<StringRef> layerNames() {
    llvm::StringMap<StringRef> names;
    module.walk([&](func::CallOp call) {
      auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
      for (auto [i, v] : llvm::enumerate(call.getOperands()))
        if (auto state = v.getDefiningOp<StateOpInterface>())
          if (auto name = callee.getArgAttrOfType<StringAttr>(i, "nn.parameter"))
            names.try_emplace(state.getStateSymbol(), name.getValue());
    });
    return names;
  }

  dist::ShardingAttr sharded(Type type, DictionaryAttr places) {
    SmallVector<SmallVector<StringAttr>> dims;
    for (StringAttr name : nn::dimNames(type)) {
      auto list = places ? places.getAs<ArrayAttr>(name.getValue()) : ArrayAttr();
      dims.push_back(list ? axes.expand(list) : SmallVector<StringAttr>());
    }
    return dist::ShardingAttr::get(context, dims, ArrayRef<StringAttr>());
  }

  dist::ShardingAttr layout(Type type) {
    auto dims = plan::entry<plan::LayoutOp>(solution).getDims();
    // Token ids and the like arrive with their sequence whole.
    if (!isa<FloatType>(getElementTypeOrSelf(type))) {
      NamedAttrList batch;
      if (Attribute a = dims.get("batch"))
        batch.set("batch", a);
      return sharded(type, batch.getDictionary(context));
    }
    return sharded(type, dims);
  }

  /// The same dictionary with every axis replaced by mesh axes.
  DictionaryAttr expanded(DictionaryAttr factors) {
    NamedAttrList out;
    for (NamedAttribute f : factors) {
      auto list = axes.expand(cast<ArrayAttr>(f.getValue()));
      out.set(f.getName(),
              ArrayAttr::get(context, SmallVector<Attribute>(list.begin(), list.end())));
    }
    return out.getDictionary(context);
  }

  ModuleOp module;
  plan::SolutionOp solution;
  plan::AxisTable axes;
  SmallVector<StringAttr> tokenAxes;
  MLIRContext *context;
};
} // namespace

/// The joint graphs of kinds that run in pieces, with the sizes of a piece.
static LogicalResult sizePieces(ModuleOp module, Annotator &annotator,
                                const std::map<std::string, int64_t> &wholes) {
  for (auto joint : module.getOps<func::FuncOp>())
    if (auto of = joint->getAttrOfType<FlatSymbolRefAttr>("nn.joint"))
      if (auto chunks = annotator.chunksOf(of.getValue())) {
        auto sizes = wholes;
        for (auto [name, pieces] :
             llvm::zip(chunks->along.getAsValueRange<StringAttr>(), chunks->pieces))
          sizes[name.str()] /= pieces;
        if (failed(specializeSizes(joint, sizes)))
          return failure();
      }
  return success();
}

LogicalResult applyPlan(ModuleOp module, plan::SolutionOp solution,
                        const OptimizerSettings &optimizer) {
  if (failed(checkApplicable(module, solution)))
    return failure();
  module.getContext()->loadDialect<dist::DistDialect>();
  Annotator annotator(module, solution);
  auto batch = plan::entry<plan::BatchOp>(solution);
  const std::map<std::string, int64_t> sizes = {
      {"batch", batch.getMicro() * annotator.ways("batch")},
      {"sequence", int64_t(batch.getSequence())}};
  if (failed(sizePieces(module, annotator, sizes)) || failed(specializeSizes(module, sizes)))
    return failure();
  annotator.addMesh();
  annotator.noteOverlap();
  annotator.placeParameters();

  llvm::StringMap<SplitKind> kinds;
  SmallVector<func::FuncOp> originals;
  for (auto joint : llvm::to_vector(module.getOps<func::FuncOp>())) {
    auto of = joint->getAttrOfType<FlatSymbolRefAttr>("nn.joint");
    if (!of)
      continue;
    auto original = module.lookupSymbol<func::FuncOp>(of.getValue());
    annotator.orderTokens(joint, original);
    auto blocks = annotator.blocksOf(of.getValue());
    SplitKind &kind = kinds[of.getValue()] =
        splitJoint(joint, annotator.savedOf(of.getValue()), blocks ? blocks->first : "");
    kind.chunks = annotator.chunksOf(of.getValue());
    if (blocks) {
      Builder b(module.getContext());
      auto record =
          b.getDictionaryAttr(b.getNamedAttr(blocks->first, b.getI64IntegerAttr(blocks->second)));
      kind.forward->setAttr("nn.blocks", record);
      kind.backward->setAttr("nn.blocks", record);
    }
    // What goes in pieces goes back at once.
    if (module->hasAttr("pipe.weights_apart") && !kind.chunks && !blocks)
      splitWeights(kind, original);
    annotator.placeBoundary(kind, original);
    for (func::FuncOp half : {kind.forward, kind.backward, kind.weights})
      if (half)
        annotator.assign(half, of.getValue());
    llvm::append_range(originals, ArrayRef{original, joint});
  }
  buildEntries(module, kinds, optimizer,
               int64_t(batch.getGlobal()) / (int64_t(batch.getMicro()) * annotator.ways("batch")));
  for (auto f : module.getOps<func::FuncOp>())
    if (f.getName() == "forward" || f->hasAttr("nn.stage"))
      originals.push_back(f);
  for (func::FuncOp f : originals)
    f.erase();
  for (auto f : module.getOps<func::FuncOp>())
    if (f->hasAttr("nn.entry"))
      annotator.placeEntry(f);
  return success();
}

} // namespace cleave

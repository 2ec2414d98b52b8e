//===- Check.cpp - Can this plan be carried out on this model? -------------===//

#include "cleave/Analysis/Blocks.h"
#include "cleave/Planner/Planner.h"
#include "dialects/Interfaces/Interfaces.h"
#include "dialects/NN/NN.h"
#include "lib/Planner/Chunks.h"
#include "lib/Planner/Policy.h"
#include "lib/Planner/Refuse.h"
#include "lib/Planner/Stages.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;
namespace cleave {

/// An operator as a plan's reader knows it; the kind for its function.
static std::string nameOf(Operation *op, StringRef kind) {
  return ("'" + (isa<func::FuncOp>(op) ? kind : op->getName().getStringRef()) + "'").str();
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
      } else if (auto recompute = dyn_cast<plan::RecomputeOp>(op)) {
        if (failed(checkPaths(recompute, recompute.getKind(),
                              llvm::to_vector(recompute.getSaved().getAsValueRange<StringAttr>()))))
          return failure();
      } else if (auto precision = dyn_cast<plan::PrecisionOp>(op)) {
        if (failed(checkPaths(precision, precision.getKind(), precision.getPath())))
          return failure();
      } else if (auto chunk = dyn_cast<plan::ChunkOp>(op)) {
        if (failed(checkChunk(chunk)))
          return failure();
      }
    }
    auto pipeline = plan::entry<plan::PipelineOp>(solution);
    return pipeline ? checkPipeline(pipeline, solution, model) : LogicalResult(success());
  }

private:
  LogicalResult checkRanks(int64_t ranks) {
    int64_t product = axes.size(axes.names);
    if (product == ranks)
      return success();
    InFlightDiagnostic error =
        refuse(solution,
               "plan.ranks_mismatch: the plan's axes make " + Twine(product) +
                   " ranks, the cluster has " + Twine(ranks),
               "the product of all axes is the number of ranks");
    error.attachNote() << "suggestion: a cluster of " << product << " ranks, as local:" << product;
    return error;
  }

  LogicalResult checkBatch() {
    auto batch = plan::entry<plan::BatchOp>(solution);
    auto layout = plan::entry<plan::LayoutOp>(solution);
    int64_t dp = axes.ways(layout.getDims(), "batch");
    if (auto zigzag = batch.getZigzag()) {
      NamedAttribute place(StringAttr::get(batch.getContext(), "sequence"), *zigzag);
      if (failed(checkAxes(batch, DictionaryAttr::get(batch.getContext(), place))))
        return failure();
    }
    const auto isBelowOne = [](uint64_t size) { return static_cast<int64_t>(size) < 1; };
    if (isBelowOne(batch.getGlobal()) || isBelowOne(batch.getMicro()) ||
        isBelowOne(batch.getSequence()))
      return refuse(batch, "plan.bad_value: a size of the batch is below 1",
                    "global, micro and sequence are at least 1",
                    "global " + Twine(dp) + " micro 1 sequence 1");
    int64_t share = batch.getGlobal() / dp;
    if (batch.getGlobal() % dp == 0 && share % batch.getMicro() == 0)
      return checkSizes(batch);
    InFlightDiagnostic error = refuse(
        batch,
        "plan.batch_indivisible: global batch " + Twine(batch.getGlobal()) + " is no multiple of " +
            Twine(dp) + " (ranks that share it) × " + Twine(batch.getMicro()) + " (micro-batch)",
        "ranks × micro divides global");
    int64_t above;
    if (llvm::MulOverflow(share + 1, dp, above))
      above = share * dp;
    error.attachNote() << "suggestion: global " << above << " micro 1";
    return error;
  }

  /// Sizes that the model has positions for and that tokens can be counted in.
  LogicalResult checkSizes(plan::BatchOp batch) {
    auto positions = model->getAttrOfType<IntegerAttr>("nn.max_positions");
    int64_t global = batch.getGlobal(), micro = batch.getMicro(), sequence = batch.getSequence();
    if (positions && sequence > positions.getInt()) {
      InFlightDiagnostic error =
          refuse(batch,
                 "plan.sequence_too_long: sequences of " + Twine(sequence) +
                     " tokens, and the model has " + Twine(positions.getInt()) + " positions",
                 "sequence is at most the model's positions");
      error.attachNote() << "suggestion: sequence " << positions.getInt();
      return error;
    }
    const int64_t each = rowsOfToken(model, solution);
    const int64_t mostTokens = std::numeric_limits<int32_t>::max() / each;
    constexpr int64_t mostSequences = int64_t(1) << 40;
    if (micro <= mostTokens / sequence && global <= mostSequences)
      return success();
    const std::string rows =
        each > 1 ? " (" + std::to_string(each) + " rows of products with experts for each token)"
                 : "";
    InFlightDiagnostic error =
        refuse(batch, "plan.batch_too_large: more tokens or sequences than can be counted",
               "a micro-batch has at most " + (each > 1 ? Twine(mostTokens) : Twine("2^31 - 1")) +
                   " tokens" + rows + " and a step 2^40 sequences");
    error.attachNote() << "given: global " << global << " micro " << micro << " sequence "
                       << sequence;
    error.attachNote() << "suggestion: "
                       << (global <= mostSequences ? "micro 1" : "global 1048576 micro 1");
    return error;
  }

  /// Axes exist, and none is named twice.
  LogicalResult checkAxes(Operation *op, DictionaryAttr places) {
    llvm::StringMap<StringRef> used;
    std::vector<std::string> known;
    for (auto axis : solution.getOps<plan::AxisOp>())
      known.push_back(axis.getName().str());
    for (NamedAttribute place : places) {
      auto list = dyn_cast<ArrayAttr>(place.getValue());
      if (!list || !llvm::all_of(list, [](Attribute a) { return isa<StringAttr>(a); }))
        return refuse(op,
                      "plan.bad_value: '" + place.getName().getValue() + "' has no list of axes",
                      "axes are a list of names, as [\"tensor\"]",
                      "remove '" + place.getName().getValue() + "' from the line");
      for (Attribute a : list) {
        StringRef name = cast<StringAttr>(a).getValue();
        auto expanded = axes.expand(name);
        if (expanded.empty())
          return refuseName(op, "plan.unknown_axis: the plan has no axis '" + name + "'", name,
                            known);
        auto pipeline = plan::entry<plan::PipelineOp>(solution);
        for (StringAttr e : expanded)
          if (pipeline && llvm::is_contained(axes.expand(pipeline.getAxis()), e)) {
            InFlightDiagnostic error =
                refuse(op,
                       "plan.axis_used_twice: the axis '" + e.getValue() +
                           "' has the stages of the pipeline and cuts '" +
                           place.getName().getValue() + "'",
                       "an axis has stages along it, or cuts what a stage computes");
            error.attachNote() << "suggestion: remove '" << place.getName().getValue()
                               << "' from the line";
            return error;
          }
        for (StringAttr e : expanded)
          if (auto [it, fresh] = used.try_emplace(e.getValue(), place.getName().getValue()); !fresh)
            return refuse(op,
                          "plan.axis_used_twice: the axis '" + e.getValue() + "' cuts both '" +
                              it->second + "' and '" + place.getName().getValue() + "'",
                          "a line uses an axis once",
                          "remove '" + name + "' from '" + place.getName().getValue() + "'");
      }
    }
    return success();
  }

  LogicalResult checkParameter(plan::ParameterOp parameter) {
    std::vector<std::string> known;
    for (auto kind : model.getOps<func::FuncOp>())
      for (unsigned i = 0; kind->hasAttr("nn.kind") && i < kind.getNumArguments(); ++i) {
        auto name = kind.getArgAttrOfType<StringAttr>(i, "nn.parameter");
        if (!name)
          continue;
        known.push_back(name.str());
        if (name.getValue() != parameter.getName())
          continue;
        std::vector<std::string> dims;
        for (StringAttr dim : nn::dimNames(kind.getArgument(i).getType()))
          dims.push_back(dim.str());
        for (DictionaryAttr places : parameter.getPlaces()) {
          for (NamedAttribute place : places)
            if (!llvm::is_contained(dims, place.getName().getValue()))
              return refuseName(parameter,
                                "plan.unknown_factor: '" + parameter.getName() +
                                    "' has no dimension '" + place.getName().getValue() + "'",
                                place.getName(), dims);
          if (failed(checkAxes(parameter, places)))
            return failure();
        }
        return success();
      }
    return refuseName(
        parameter, "plan.unknown_parameter: no layer has a parameter '" + parameter.getName() + "'",
        parameter.getName(), known);
  }

  /// The kind called `name`, or nothing and a diagnostic at `entry`.
  func::FuncOp findKind(Operation *entry, StringRef name) {
    auto kind = model.lookupSymbol<func::FuncOp>(name);
    if (kind && kind->hasAttr("nn.kind"))
      return kind;
    std::vector<std::string> known;
    for (auto f : model.getOps<func::FuncOp>())
      if (f->hasAttr("nn.kind"))
        known.push_back(f.getName().str());
    (void)refuseName(entry, "plan.unknown_kind: the model has no kind of layer '" + name + "'",
                     name, known);
    return {};
  }

  /// The kind called `name` and the paths exist.
  LogicalResult checkPaths(Operation *entry, StringRef name, ArrayRef<StringRef> paths) {
    func::FuncOp kind = findKind(entry, name);
    if (!kind)
      return failure();
    std::vector<std::string> known;
    for (Operation &op : kind.getBody().getOps())
      if (auto path = op.getAttrOfType<StringAttr>("nn.path"))
        known.push_back(path.str());
    for (StringRef path : paths)
      if (!llvm::is_contained(known, path))
        return refuseName(entry,
                          "plan.unknown_path: '" + name + "' has no operator at '" + path + "'",
                          path, known);
    return success();
  }

  /// The pieces are equal, and the kind can run in them.
  LogicalResult checkChunk(plan::ChunkOp chunk) {
    func::FuncOp kind = findKind(chunk, chunk.getKind());
    if (!kind)
      return failure();
    if (!chunk.isOfTokens())
      return checkBlocks(chunk);
    auto batch = plan::entry<plan::BatchOp>(solution);
    auto layout = plan::entry<plan::LayoutOp>(solution);
    for (auto [name, pieces] :
         llvm::zip(chunk.getAlong().getAsValueRange<StringAttr>(), chunk.getPieces())) {
      int64_t size = name == "batch" ? int64_t(batch.getMicro()) : int64_t(batch.getSequence());
      int64_t ways = name == "batch" ? 1 : axes.ways(layout.getDims(), name);
      if (size % ways == 0 && size / ways % pieces == 0)
        continue;
      int64_t fewer = std::max<int64_t>(std::min<int64_t>(pieces, size / ways), 1);
      while (size % ways == 0 && size / ways % fewer != 0)
        --fewer;
      InFlightDiagnostic error =
          refuse(chunk,
                 "plan.chunk_indivisible: " + Twine(size) + " elements along '" + name + "' on " +
                     Twine(ways) + " ranks do not give " + Twine(pieces) + " equal pieces",
                 "ranks × pieces divides micro (batch) or the sequence");
      error.attachNote() << "suggestion: " << (size % ways == 0 ? fewer : 1) << " pieces";
      return error;
    }
    if (failed(checkOneSequence(chunk, batch)))
      return failure();
    auto joint = model.lookupSymbol<func::FuncOp>((chunk.getKind() + ".joint").str());
    for (StringRef name : chunk.getAlong().getAsValueRange<StringAttr>())
      if (auto obstacle = joint ? findChunkObstacle(joint, name) : std::nullopt)
        return refuse(
            chunk,
            "plan.chunk_unsupported: '" + chunk.getKind() + "' cannot run in pieces along '" +
                name + "': " + nameOf(obstacle->op, chunk.getKind()) + " " + obstacle->reason,
            "the last kind runs in pieces, if its results are sums over them", "remove the line");
    return success();
  }

  /// The kind can go through the dimension of inner values in blocks.
  LogicalResult checkBlocks(plan::ChunkOp chunk) {
    if (lastKind(model) != chunk.getKind())
      return refuse(chunk, "plan.chunk_unsupported: '" + chunk.getKind() + "' cannot run in pieces",
                    "the last kind of the model runs in pieces", "remove the line");
    auto joint = model.lookupSymbol<func::FuncOp>((chunk.getKind() + ".joint").str());
    StringRef dim = cast<StringAttr>(chunk.getAlong()[0]).getValue();
    std::vector<std::string> known = {"batch", "sequence"};
    bool found = false;
    if (joint)
      joint.walk([&](Operation *op) {
        for (Value v : op->getOperands())
          for (StringAttr name : nn::dimNames(v.getType())) {
            found |= name == dim;
            if (!llvm::is_contained(known, name.str()))
              known.push_back(name.str());
          }
      });
    if (!found)
      return refuseName(
          chunk, "plan.unknown_factor: '" + chunk.getKind() + "' has nothing along '" + dim + "'",
          dim, known);
    if (auto obstacle = findBlockObstacle(joint, dim))
      return refuse(chunk,
                    "plan.chunk_unsupported: '" + chunk.getKind() +
                        "' cannot run in pieces along '" + dim +
                        "': " + nameOf(obstacle->op, chunk.getKind()) + " " + obstacle->reason,
                    "operators along the dimension compute elements of it, or gather it up",
                    "remove the line");
    int64_t pieces = chunk.getPieces()[0];
    auto equal = equalPieces(solution, findKind(chunk, chunk.getKind()), dim, pieces);
    if (!equal || *equal == pieces || pieces == 1)
      return success();
    InFlightDiagnostic error =
        refuse(chunk,
               "plan.chunk_indivisible: '" + dim + "' does not give " + Twine(pieces) +
                   " equal pieces on a rank",
               "pieces are equal where a parameter along the dimension is cut over the ranks of "
               "the batch too (ZeRO), or its gradient is summed over them beside the computation");
    error.attachNote() << "suggestion: " << *equal << " pieces";
    return error;
  }

  /// A part of a sequence is a run of memory only if it is of one sequence.
  LogicalResult checkOneSequence(plan::ChunkOp chunk, plan::BatchOp batch) {
    int64_t sequences = batch.getMicro();
    for (auto [name, pieces] :
         llvm::zip(chunk.getAlong().getAsValueRange<StringAttr>(), chunk.getPieces())) {
      if (name == "batch")
        sequences /= pieces;
      if (name != "sequence" || pieces == 1 || sequences == 1)
        continue;
      InFlightDiagnostic error = refuse(
          chunk,
          "plan.chunk_indivisible: a piece would have parts of " + Twine(sequences) + " sequences",
          "along [\"batch\", \"sequence\"], in as many pieces of the batch as micro has "
          "sequences");
      error.attachNote() << "suggestion: along [\"batch\", \"sequence\"] pieces ["
                         << batch.getMicro() << ", " << pieces << "]";
      return error;
    }
    return success();
  }

  LogicalResult checkAssign(plan::AssignOp assign) {
    func::FuncOp kind = findKind(assign, assign.getKind());
    if (!kind)
      return failure();
    std::vector<std::string> known;
    SmallVector<Operation *> at;
    for (Operation &op : kind.getBody().getOps())
      if (auto path = op.getAttrOfType<StringAttr>("nn.path")) {
        known.push_back(path.str());
        if (path.getValue() == assign.getPath())
          at.push_back(&op);
      }
    if (at.empty())
      return refuseName(assign,
                        "plan.unknown_path: '" + assign.getKind() + "' has no operator at '" +
                            assign.getPath() + "'",
                        assign.getPath(), known);
    if (failed(checkAxes(assign, assign.getFactors())))
      return failure();
    for (NamedAttribute place : assign.getFactors())
      if (failed(checkFactor(assign, place.getName(), at)))
        return failure();
    return success();
  }

  LogicalResult checkFactor(plan::AssignOp assign, StringRef factor, ArrayRef<Operation *> at) {
    std::vector<std::string> known;
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
        InFlightDiagnostic error = refuse(assign,
                                          "plan.factor_not_shardable: '" + factor + "' of '" +
                                              assign.getPath() + "' cannot be cut",
                                          "an operator says of which of its factors it needs all");
        error.attachNote() << "suggestion: remove '" << factor << "' from the line";
        return error;
      }
    }
    if (found)
      return success();
    return refuseName(
        assign, "plan.unknown_factor: '" + assign.getPath() + "' has no factor '" + factor + "'",
        factor, known);
  }

  plan::SolutionOp solution;
  ModuleOp model;
  plan::AxisTable axes;
};
} // namespace

LogicalResult checkPlan(plan::SolutionOp solution, ModuleOp model, int64_t ranks) {
  return Checker(solution, model).run(ranks);
}

} // namespace cleave

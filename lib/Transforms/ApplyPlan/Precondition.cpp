//===- Precondition.cpp - What a module must be for a plan to be applied ---===//

#include "lib/Transforms/ApplyPlan/Precondition.h"
#include "cleave/Analysis/Blocks.h"
#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "lib/Transforms/ApplyPlan/Passage.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
namespace cleave {

/// Every value is a list of axes that the plan has.
static LogicalResult checkLists(Operation *op, DictionaryAttr places, const plan::AxisTable &axes) {
  for (NamedAttribute place : places) {
    auto list = dyn_cast<ArrayAttr>(place.getValue());
    if (!list || !llvm::all_of(list, [](Attribute a) { return isa<StringAttr>(a); }))
      return op->emitOpError() << "needs a list of axes for '" << place.getName().getValue() << "'";
    for (Attribute a : list)
      if (axes.expand(cast<StringAttr>(a).getValue()).empty())
        return op->emitOpError() << "names an axis that the plan has not: " << a;
  }
  return success();
}

static LogicalResult checkSolution(plan::SolutionOp solution) {
  plan::AxisTable axes(solution);
  for (Operation &op : solution.getBody().front()) {
    SmallVector<DictionaryAttr> places;
    if (auto layout = dyn_cast<plan::LayoutOp>(op))
      places.push_back(layout.getDims());
    else if (auto parameter = dyn_cast<plan::ParameterOp>(op))
      places = parameter.getPlaces();
    else if (auto assign = dyn_cast<plan::AssignOp>(op))
      places.push_back(assign.getFactors());
    else if (auto batch = dyn_cast<plan::BatchOp>(op); batch && batch.getZigzag())
      places.push_back(Builder(op.getContext())
                           .getDictionaryAttr(NamedAttribute(
                               StringAttr::get(op.getContext(), "sequence"), *batch.getZigzag())));
    for (DictionaryAttr place : places)
      if (failed(checkLists(&op, place, axes)))
        return failure();
  }
  return success();
}

/// `@forward`, or the stages of one place in a pipeline.
static SmallVector<func::FuncOp> passesOf(ModuleOp module) {
  SmallVector<func::FuncOp> passes;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.getName() == "forward" || function->hasAttr("nn.stage"))
      passes.push_back(function);
  return passes;
}

/// Whether the last layers are in `pass`, which then returns the loss.
static bool endsModel(func::FuncOp pass) {
  auto number = pass->getAttrOfType<IntegerAttr>("nn.stage");
  auto count = pass->getParentOp()->getAttrOfType<IntegerAttr>("pipe.stages");
  return !number || (count && number.getInt() + 1 == count.getInt());
}

static LogicalResult checkForward(ModuleOp module) {
  auto isScalar = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getRank() == 0 && tensor.getElementType().isF32();
  };
  const SmallVector<func::FuncOp> passes = passesOf(module);
  if (passes.empty() || llvm::any_of(passes, [](func::FuncOp f) { return f.isExternal(); }))
    return module.emitError("has no @forward to make a step of");
  for (func::FuncOp pass : passes) {
    const bool ends = endsModel(pass), isStage = pass->hasAttr("nn.stage");
    if (isStage ? pass.getNumArguments() < 4 : pass.getNumArguments() != 4)
      return pass.emitOpError("must take tokens, targets, positions and a scale");
    if (ends && pass.getNumResults() == 0)
      return pass.emitOpError("must return the loss");
    if (!isScalar(pass.getArgumentTypes()[3]))
      return pass.emitOpError() << "needs a scale of type tensor<f32>, not "
                                << pass.getArgumentTypes()[3];
    for (Type type : ends ? TypeRange(pass.getResultTypes()) : TypeRange())
      if (!isScalar(type))
        return pass.emitOpError() << "needs a loss of type tensor<f32>, not " << type;
  }
  return success();
}

/// Positions that stand in `name` of `joint`, each below `count`.
static LogicalResult checkPositions(func::FuncOp joint, StringRef name, int64_t count) {
  auto list = joint->getAttrOfType<DenseI64ArrayAttr>(name);
  if (!list)
    return joint.emitOpError() << "is a joint graph without '" << name << "'";
  for (int64_t i : list.asArrayRef())
    if (i < 0 || i >= count)
      return joint.emitOpError() << "has a position in '" << name
                                 << "' that its kind has not: " << i;
  return success();
}

static LogicalResult checkJoint(ModuleOp module, func::FuncOp joint) {
  auto of = joint->getAttrOfType<FlatSymbolRefAttr>("nn.joint");
  auto kind = of ? module.lookupSymbol<func::FuncOp>(of.getValue()) : func::FuncOp();
  if (!kind)
    return joint.emitOpError("is a joint graph of no kind in the module");
  if (joint.isExternal() || !joint.getBody().hasOneBlock())
    return joint.emitOpError("is a joint graph that needs a body of one block");
  if (failed(checkPositions(joint, "nn.joint.results", kind.getNumResults())) ||
      failed(checkPositions(joint, "nn.joint.arguments", kind.getNumArguments())))
    return failure();
  int64_t results = joint->getAttrOfType<DenseI64ArrayAttr>("nn.joint.results").size(),
          arguments = joint->getAttrOfType<DenseI64ArrayAttr>("nn.joint.arguments").size();
  if (joint.getNumArguments() != kind.getNumArguments() + results ||
      joint.getNumResults() != kind.getNumResults() + arguments)
    return joint.emitOpError() << "is no joint graph of @" << kind.getName()
                               << ": it takes and returns other numbers of values";
  return success();
}

/// One way through the layers finds all sums over the whole batch.
static LogicalResult checkBatchSum(WholeBatchOpInterface sum, Block &block) {
  if (sum->getParentOfType<RepeatOpInterface>())
    return sum->emitOpError("sums over the whole batch in a repeat of layers; it may stand "
                            "behind one");
  for (Operation *op : neededFor(sum.getContribution(), block))
    if (isa<WholeBatchOpInterface>(op)) {
      InFlightDiagnostic error = sum->emitOpError("sums over the whole batch what needs another "
                                                  "such sum");
      error.attachNote(op->getLoc()) << "this one";
      return error;
    }
  return success();
}

/// A block of `@forward` calls kinds, in it or in a repeat. What stands beside the calls has a
/// gradient; in a repeat nothing does.
static LogicalResult checkCalls(Block &block, const llvm::DenseSet<StringAttr> &joints) {
  for (Operation &op : block.without_terminator()) {
    if (auto repeat = dyn_cast<RepeatOpInterface>(op)) {
      if (repeat->getParentOfType<RepeatOpInterface>() ||
          repeat->getNumOperands() != repeat.getNumCarried() ||
          repeat->getNumResults() != repeat.getNumCarried())
        return op.emitOpError("repeats layers: it may carry values, and neither scan nor stack "
                              "any, nor stand in another repeat");
      if (failed(checkCalls(repeat.getRepeatedBlock(), joints)))
        return failure();
      continue;
    }
    auto call = dyn_cast<func::CallOp>(op);
    if (call && !joints.contains(StringAttr::get(call.getContext(), call.getCallee())))
      return call.emitOpError() << "enters @" << call.getCallee()
                                << ", which has no joint graph; run "
                                   "cleave-autodiff-differentiate first";
    if (auto sum = dyn_cast<WholeBatchOpInterface>(op)) {
      if (failed(checkBatchSum(sum, block)))
        return failure();
      continue;
    }
    if (!call && op.getNumOperands() > 0 &&
        !(isa<DifferentiableOpInterface>(op) && isa<func::FuncOp>(op.getParentOp())))
      return op.emitOpError("computes outside every kind of layer, where no gradient reaches it");
    // The gradient of what is the same for all layers would have to be carried.
    for (Value v : op.getOperands())
      if (v.getParentBlock() != &block && isa<FloatType>(getElementTypeOrSelf(v)))
        return op.emitOpError("reads a value from outside the repeat: carry it, or load it inside");
  }
  return success();
}

/// What runs in pieces is the last kind, its pieces are equal on all ranks, and it
/// is a sum over them.
static LogicalResult checkChunk(plan::ChunkOp chunk, ModuleOp module, plan::SolutionOp solution) {
  plan::AxisTable axes(solution);
  auto batch = plan::entry<plan::BatchOp>(solution);
  auto layout = plan::entry<plan::LayoutOp>(solution);
  auto joint = module.lookupSymbol<func::FuncOp>((chunk.getKind() + ".joint").str());
  const SmallVector<func::FuncOp> passes = passesOf(module);
  const auto *ends = llvm::find_if(passes, endsModel);
  if (ends == passes.end())
    return success(); // of a stage of another place in the pipeline
  if (!joint)
    return chunk.emitOpError() << "names a kind that has no joint graph: '" << chunk.getKind()
                               << "'";
  Operation *end = func::FuncOp(*ends).getBody().front().getTerminator();
  auto last = end->getOperand(0).getDefiningOp<func::CallOp>();
  if (!last || last.getCallee() != chunk.getKind() || last.getNumResults() != 1)
    return chunk.emitOpError("runs a kind in pieces that is not the last one");
  auto refuse = [&](const ChunkObstacle &obstacle, StringRef name) {
    InFlightDiagnostic error = chunk.emitOpError()
                               << "runs '" << chunk.getKind() << "' in pieces along '" << name
                               << "', which it cannot";
    error.attachNote(obstacle.op->getLoc())
        << "'" << obstacle.op->getName() << "' " << obstacle.reason;
    return error;
  };
  StringRef first = cast<StringAttr>(chunk.getAlong()[0]).getValue();
  if (!chunk.isOfTokens()) {
    auto obstacle = findBlockObstacle(joint, first);
    return obstacle ? refuse(*obstacle, first) : LogicalResult(success());
  }
  for (auto [name, pieces] :
       llvm::zip(chunk.getAlong().getAsValueRange<StringAttr>(), chunk.getPieces())) {
    int64_t size = name == "batch" ? int64_t(batch.getMicro()) : int64_t(batch.getSequence());
    int64_t ways = name == "batch" ? 1 : axes.ways(layout.getDims(), name);
    if (size % (ways * pieces) != 0)
      return chunk.emitOpError() << "cannot make " << pieces << " equal pieces of " << size
                                 << " elements along '" << name << "' on each of " << ways
                                 << " ranks";
    if (auto obstacle = findChunkObstacle(joint, name))
      return refuse(*obstacle, name);
  }
  return success();
}

/// What cares for the order of tokens is told their positions, or they come in order.
static LogicalResult checkTokenOrder(ModuleOp module, plan::SolutionOp solution) {
  auto batch = plan::entry<plan::BatchOp>(solution);
  if (!batch.getZigzag() || batch.getZigzag()->empty())
    return success();
  WalkResult walk = module.walk([&](TokenOrderOpInterface op) {
    if (!op.getTokenPositions().empty())
      return WalkResult::advance();
    InFlightDiagnostic error = batch.emitError()
                               << "plan.zigzag_unsupported: '" << op->getName()
                               << "' takes the rows of a sequence for its positions";
    error.attachNote(op->getLoc()) << "given: an operator without positions";
    error.attachNote() << "rule: tokens stand in another order only if every operator that "
                          "compares them is given their positions";
    error.attachNote() << "suggestion: remove zigzag from plan.batch";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

/// A plan with a pipeline is for the parts of a model, one without for a whole one.
static LogicalResult checkPart(ModuleOp module, plan::SolutionOp solution) {
  auto pipeline = plan::entry<plan::PipelineOp>(solution);
  if (pipeline && !module->hasAttr("pipe.index"))
    return pipeline.emitOpError("is for a model that has been cut into stages; run "
                                "cleave-pipeline-cut first");
  if (!pipeline && module->hasAttr("pipe.index"))
    return solution.emitOpError("has no pipeline, of which the module is a part");
  return success();
}

LogicalResult checkApplicable(ModuleOp module, plan::SolutionOp solution) {
  for (auto mesh : module.getOps<dist::MeshOp>())
    return mesh.emitOpError("is there already: a plan has been applied to this module");
  if (failed(checkPart(module, solution)) || failed(checkSolution(solution)) ||
      failed(checkForward(module)))
    return failure();
  llvm::DenseSet<StringAttr> joints;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function->hasAttr("nn.kind") && !function->hasAttr("nn.joint") &&
        !function->hasAttr("nn.entry"))
      continue;
    for (Type type :
         llvm::concat<const Type>(function.getArgumentTypes(), function.getResultTypes()))
      if (!nn::isNamedTensor(type))
        return function.emitOpError() << "takes or returns what is no tensor with named "
                                      << "dimensions: " << type;
    if (!function->hasAttr("nn.joint"))
      continue;
    if (failed(checkJoint(module, function)))
      return failure();
    joints.insert(function->getAttrOfType<FlatSymbolRefAttr>("nn.joint").getAttr());
  }
  for (func::FuncOp pass : passesOf(module))
    if (failed(checkCalls(pass.getBody().front(), joints)))
      return failure();
  for (auto chunk : solution.getOps<plan::ChunkOp>())
    if (failed(checkChunk(chunk, module, solution)))
      return failure();
  return checkTokenOrder(module, solution);
}

} // namespace cleave

//===- Precondition.cpp - What can become commands -------------------------===//

#include "lib/Target/Image/Precondition.h"
#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
namespace cleave::image {

SmallVector<int64_t> stagesOf(ModuleOp module) {
  SmallVector<int64_t> stages;
  for (auto function : module.getOps<func::FuncOp>()) {
    StringRef name = function.getName();
    int64_t number;
    if (name.consume_front("forward.") && !name.getAsInteger(10, number))
      stages.push_back(number);
  }
  return stages;
}

bool hasObjective(ModuleOp module) {
  auto update = module.lookupSymbol<func::FuncOp>("update");
  return update && update.getNumResults() == 3;
}

/// What is exchanged between the stages, and between the halves of one.
static bool isOfStage(StringRef name) {
  int64_t number;
  auto [what, index] = name.split('.');
  return llvm::is_contained({"input", "output", "input_gradient", "output_gradient", "tape"},
                            what) &&
         !index.getAsInteger(10, number);
}

static LogicalResult checkEntry(ModuleOp module, const Twine &called, ArrayRef<StringRef> results,
                                bool ofStage) {
  const std::string name = called.str();
  auto entry = module.lookupSymbol<func::FuncOp>(name);
  if (!entry || entry.isExternal())
    return module.emitError() << "has no function @" << name
                              << ", which is an entry of every program";
  static constexpr StringRef known[] = {"tokens", "targets",     "positions",
                                        "rate",   "correction1", "correction2"};
  for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
    auto given = entry.getArgAttrOfType<StringAttr>(i, "nn.name");
    if (!given ||
        !(llvm::is_contained(known, given.getValue()) || (ofStage && isOfStage(given.getValue()))))
      return entry.emitError() << "needs to know of argument " << i << " in nn.name which of "
                               << llvm::join(ArrayRef(known), ", ") << " it is";
  }
  if (!ofStage && entry.getNumResults() != results.size())
    return entry.emitError() << "returns " << entry.getNumResults() << " values; the runtime reads "
                             << results.size();
  for (unsigned i = 0; i < entry.getNumResults(); ++i) {
    auto given = entry.getResultAttrOfType<StringAttr>(i, "nn.name");
    if (!given || !(ofStage ? isOfStage(given.getValue()) : given.getValue() == results[i]))
      return entry.emitError() << "needs to know of result " << i << " in nn.name what it is";
  }
  return success();
}

/// All functions that the program runs, with what they take and return.
static LogicalResult checkEntries(ModuleOp module) {
  const bool isPart = module->hasAttr("pipe.index");
  const std::pair<StringRef, SmallVector<StringRef>> entries[] = {
      {"count", {}}, {"prepare", {"valid"}}, {"update", {"loss", "norm"}}, {"evaluate", {"loss"}}};
  for (auto [name, results] : entries) {
    if (name == "update" && hasObjective(module))
      results.push_back("objective");
    if (failed(checkEntry(module, name, results, /*ofStage=*/false)))
      return failure();
  }
  const SmallVector<int64_t> stages = stagesOf(module);
  if (isPart == stages.empty())
    return module.emitError(isPart ? "is a place in a pipeline and has no stage"
                                   : "has stages and is no place in a pipeline");
  const bool apart = module->hasAttr("pipe.weights_apart");
  for (int64_t stage : stages)
    for (StringRef name : {"forward", "backward", "evaluate", "weights", "survey", "last"})
      if ((apart || name != "weights") &&
          ((name != "survey" && name != "last") ||
           module.lookupSymbol((name + "." + Twine(stage)).str())) &&
          failed(checkEntry(module, name + "." + Twine(stage), {}, /*ofStage=*/true)))
        return failure();
  if (!isPart && failed(checkEntry(module, "microbatch", {}, /*ofStage=*/false)))
    return failure();
  for (StringRef name : {"survey", "last"})
    if (module.lookupSymbol(name) && failed(checkEntry(module, name, {}, /*ofStage=*/false)))
      return failure();
  const std::string first = isPart ? "forward." + std::to_string(stages.front()) : "microbatch";
  auto tokens = module.lookupSymbol<func::FuncOp>(first);
  if (tokens.getNumArguments() < 3 || (!isPart && tokens.getNumArguments() != 3))
    return tokens.emitError("needs tokens, targets and positions");
  return success();
}

/// All sizes are known, and elements are of a type that kernels load and store.
static LogicalResult checkTypes(Operation *op) {
  auto isPlaceable = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape() &&
           (tensor.getElementType().isF32() || tensor.getElementType().isBF16() ||
            tensor.getElementType().isInteger(32));
  };
  SmallVector<Type> types(op->getResultTypes());
  for (Region &region : op->getRegions())
    for (Block &block : region)
      llvm::append_range(types, block.getArgumentTypes());
  for (Type type : types)
    if (!isPlaceable(type))
      return op->emitOpError() << "has a value of type " << type
                               << "; values in memory are static tensors of f32, bf16 or i32";
  return success();
}

LogicalResult checkLowerable(ModuleOp module) {
  auto meshes = module.getOps<dist::MeshOp>();
  if (!llvm::hasSingleElement(meshes))
    return module.emitError("needs one dist.mesh");
  for (auto p : module.getOps<nn::ParameterOp>()) {
    auto sharding = p->getAttrOfType<dist::ShardingAttr>("dist.value");
    if (!sharding || sharding.getDims().size() != size_t(p.getTensorType().getRank()))
      return p.emitOpError("needs its sharding in dist.value");
    for (ArrayAttr axes : sharding.getDims())
      for (auto axis : axes.getAsRange<StringAttr>())
        if (dist::Mesh(*meshes.begin()).find(axis.getValue()) < 0)
          return p.emitOpError() << "is cut by " << axis << ", which is no axis of the mesh";
  }
  if (failed(checkEntries(module)))
    return failure();
  WalkResult walk = module.walk([](func::FuncOp f) {
    return f.walk([](Operation *op) { return WalkResult(checkTypes(op)); });
  });
  return failure(walk.wasInterrupted());
}

} // namespace cleave::image

//===- Precondition.cpp - What can become commands -------------------------===//

#include "lib/Target/Image/Precondition.h"
#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
namespace cleave::image {

static LogicalResult checkEntry(ModuleOp module, StringRef name, unsigned results) {
  auto entry = module.lookupSymbol<func::FuncOp>(name);
  if (!entry || entry.isExternal())
    return module.emitError() << "has no function @" << name
                              << ", which is an entry of every program";
  static constexpr StringRef known[] = {"tokens", "targets",     "positions",
                                        "rate",   "correction1", "correction2"};
  for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
    auto given = entry.getArgAttrOfType<StringAttr>(i, "nn.name");
    if (!given || !llvm::is_contained(known, given.getValue()))
      return entry.emitError() << "needs to know of argument " << i << " in nn.name which of "
                               << llvm::join(ArrayRef(known), ", ") << " it is";
  }
  if (entry.getNumResults() != results)
    return entry.emitError() << "returns " << entry.getNumResults() << " values; the runtime reads "
                             << results;
  return success();
}

/// All sizes are known and every element takes four bytes.
static LogicalResult checkTypes(Operation *op) {
  auto isPlaceable = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape() &&
           (tensor.getElementType().isF32() || tensor.getElementType().isInteger(32));
  };
  SmallVector<Type> types(op->getResultTypes());
  for (Region &region : op->getRegions())
    for (Block &block : region)
      llvm::append_range(types, block.getArgumentTypes());
  for (Type type : types)
    if (!isPlaceable(type))
      return op->emitOpError() << "has a value of type " << type
                               << "; values in memory are static tensors of f32 or i32";
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
  const std::pair<const char *, unsigned> entries[] = {
      {"count", 0}, {"prepare", 1}, {"microbatch", 0}, {"update", 2}, {"evaluate", 1}};
  for (auto [name, results] : entries)
    if (failed(checkEntry(module, name, results)))
      return failure();
  if (module.lookupSymbol<func::FuncOp>("microbatch").getNumArguments() != 3)
    return module.lookupSymbol<func::FuncOp>("microbatch")
        .emitError("needs tokens, targets and positions");
  WalkResult walk = module.walk([](func::FuncOp f) {
    return f.walk([](Operation *op) { return WalkResult(checkTypes(op)); });
  });
  return failure(walk.wasInterrupted());
}

} // namespace cleave::image

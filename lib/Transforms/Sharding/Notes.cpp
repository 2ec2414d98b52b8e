//===- Notes.cpp - The attributes that pass from step to step --------------===//

#include "lib/Transforms/Sharding/Notes.h"
#include "dialects/Interfaces/Interfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
namespace cleave {

using dist::Mesh;
using dist::ShardingAttr;

FailureOr<Mesh> findMesh(ModuleOp module) {
  auto meshes = llvm::to_vector(module.getOps<dist::MeshOp>());
  if (meshes.size() != 1)
    return module.emitError() << "has " << meshes.size()
                              << " meshes; it needs one dist.mesh, as cleave-apply writes it";
  if (meshes[0].getSymName() != "mesh")
    return meshes[0].emitOpError() << "must be called @mesh, which is how collectives name it";
  return Mesh(meshes[0]);
}

/// Axes exist and none is named twice; `used` has those of the same value so far.
static LogicalResult checkAxes(Operation *op, const dist::Axes &axes, const Mesh &mesh,
                               llvm::StringSet<> &used) {
  for (StringAttr axis : axes) {
    if (mesh.find(axis.getValue()) < 0)
      return op->emitOpError() << "names an axis that the mesh has not: " << axis;
    if (!used.insert(axis.getValue()).second)
      return op->emitOpError() << "uses the axis " << axis << " twice for one value";
  }
  return success();
}

static LogicalResult checkSharding(Operation *op, ShardingAttr sharding, Type type,
                                   const Mesh &mesh, const Twine &what) {
  auto tensor = cast<RankedTensorType>(type);
  if (int64_t(sharding.getDims().size()) != tensor.getRank())
    return op->emitOpError() << "places " << sharding.getDims().size() << " dimensions of " << what
                             << ", which has " << tensor.getRank();
  llvm::StringSet<> used;
  for (unsigned d = 0; d < sharding.getDims().size(); ++d)
    if (failed(checkAxes(op, sharding.axes(d), mesh, used)))
      return failure();
  return checkAxes(op, dist::Axes(sharding.getPartial()), mesh, used);
}

/// `attr`, where present or `required`, is a sharding of `type`.
static LogicalResult checkNote(Operation *op, Attribute attr, Type type, const Mesh &mesh,
                               const Twine &what, bool required) {
  if (!attr && !required)
    return success();
  if (!attr)
    return op->emitOpError() << "does not say where " << what
                             << " lies; run cleave-sharding-propagate first";
  auto sharding = dyn_cast<ShardingAttr>(attr);
  if (!sharding)
    return op->emitOpError() << "places " << what << " by what is no #dist.sharding: " << attr;
  return checkSharding(op, sharding, type, mesh, what);
}

static LogicalResult checkFactors(Operation *op, const Mesh &mesh) {
  Attribute attr = op->getAttr("dist.factors");
  if (!attr)
    return success();
  auto factors = dyn_cast<DictionaryAttr>(attr);
  if (!factors)
    return op->emitOpError("needs a dictionary as 'dist.factors'");
  for (NamedAttribute entry : factors) {
    auto list = dyn_cast<ArrayAttr>(entry.getValue());
    if (!list || !llvm::all_of(list, [](Attribute a) { return isa<StringAttr>(a); }))
      return op->emitOpError() << "needs a list of axes for the factor '"
                               << entry.getName().getValue() << "'";
    llvm::StringSet<> used;
    if (failed(checkAxes(op, dist::axesOf(list), mesh, used)))
      return failure();
  }
  return success();
}

/// The list `name` of `op`: one sharding for each value, if `required` or present.
static LogicalResult checkList(Operation *op, StringRef name, ValueRange values, const Mesh &mesh,
                               bool required) {
  Attribute attr = op->getAttr(name);
  if (!attr && (!required || values.empty()))
    return success();
  if (!attr)
    return op->emitOpError() << "has no '" << name << "'; run cleave-sharding-propagate first";
  auto list = dyn_cast<ArrayAttr>(attr);
  if (!list || list.size() != values.size())
    return op->emitOpError() << "needs " << values.size() << " shardings in '" << name << "'";
  for (auto [i, v] : llvm::enumerate(values))
    if (failed(checkNote(op, list[i], v.getType(), mesh,
                         Twine("value ") + Twine(i) + " of '" + name + "'", true)))
      return failure();
  return success();
}

static LogicalResult checkSignature(FunctionOpInterface function, const Mesh &mesh, bool required) {
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
    if (failed(checkNote(function, function.getArgAttr(i, "dist.sharding"), type, mesh,
                         "argument " + Twine(i), required)))
      return failure();
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    if (failed(checkNote(function, function.getResultAttr(i, "dist.sharding"), type, mesh,
                         "result " + Twine(i), required)))
      return failure();
  return success();
}

LogicalResult forEachOperation(Block &block, function_ref<LogicalResult(Operation *)> each) {
  for (Operation &op : block) {
    if (failed(each(&op)))
      return failure();
    if (auto repeat = dyn_cast<RepeatOpInterface>(op))
      if (failed(forEachOperation(repeat.getRepeatedBlock(), each)))
        return failure();
  }
  return success();
}

/// One block, in which all values are ranked tensors.
static LogicalResult checkForm(FunctionOpInterface function) {
  if (function.isExternal() || !function.getFunctionBody().hasOneBlock())
    return function->emitOpError("cannot be cut over ranks: it needs a body of one block");
  auto isTensor = [](Type type) { return isa<RankedTensorType>(type); };
  if (!llvm::all_of(function.getArgumentTypes(), isTensor))
    return function->emitOpError("cannot be cut over ranks: an argument is no ranked tensor");
  return forEachOperation(function.getFunctionBody().front(), [&](Operation *op) -> LogicalResult {
    if (!llvm::all_of(op->getResultTypes(), isTensor))
      return op->emitOpError("cannot be cut over ranks: a result is no ranked tensor");
    if (op->getNumRegions() > 0 && !isa<RepeatOpInterface>(op))
      return op->emitOpError("cannot be cut over ranks: it has a region");
    return success();
  });
}

/// Placements of kept tensors, against the operators that address them.
static LogicalResult checkSlot(StateOpInterface state, SymbolTable &symbols, const Mesh &mesh) {
  Operation *symbol = symbols.lookup(state.getStateSymbol());
  if (!symbol)
    return state->emitOpError() << "names no symbol '" << state.getStateSymbol() << "'";
  Value value = state->getNumResults() ? state->getResult(0) : state->getOperand(0);
  return checkNote(symbol, symbol->getAttr(("dist." + state.getStateSlot()).str()), value.getType(),
                   mesh, Twine("'") + state.getStateSlot() + "'", false);
}

/// The notes of one operator.
static LogicalResult checkOperation(Operation *op, SymbolTable &symbols, const Mesh &mesh,
                                    bool required) {
  auto state = dyn_cast<StateOpInterface>(op);
  if (failed(checkFactors(op, mesh)) || (state && failed(checkSlot(state, symbols, mesh))))
    return failure();
  if (auto reshard = dyn_cast<dist::ReshardOp>(op)) {
    for (ShardingAttr sharding : {reshard.getSource(), reshard.getTarget()})
      if (failed(checkSharding(op, sharding, reshard.getType(), mesh, "its value")))
        return failure();
    return success();
  }
  if (auto repeat = dyn_cast<RepeatOpInterface>(op))
    if (failed(checkList(op, "dist.arguments", repeat.getRepeatedBlock().getArguments(), mesh,
                         required)))
      return failure();
  return success(succeeded(checkList(op, "dist.in", op->getOperands(), mesh, required)) &&
                 succeeded(checkList(op, "dist.out", op->getResults(), mesh, required)));
}

static LogicalResult check(ModuleOp module, const Mesh &mesh, bool required) {
  SymbolTable symbols(module);
  for (auto function : module.getOps<FunctionOpInterface>()) {
    if (failed(checkForm(function)) || failed(checkSignature(function, mesh, required)))
      return failure();
    auto each = [&](Operation *op) { return checkOperation(op, symbols, mesh, required); };
    if (failed(forEachOperation(function.getFunctionBody().front(), each)))
      return failure();
  }
  return success();
}

LogicalResult checkGiven(ModuleOp module, const Mesh &mesh) { return check(module, mesh, false); }

LogicalResult checkNotes(ModuleOp module, const Mesh &mesh) { return check(module, mesh, true); }

/// The path of an operator, or which kept tensor it accesses; null where it has neither.
static StringAttr ownName(Operation *op) {
  auto state = dyn_cast<StateOpInterface>(op);
  if (!state)
    return op->getAttrOfType<StringAttr>("nn.path");
  std::string name = state.getStateSymbol().str();
  size_t open = name.find('{'), close = name.find('}');
  if (close != std::string::npos && close > open + 1)
    name.replace(open, close - open + 1, "*");
  return StringAttr::get(op->getContext(), name + " " + state.getStateSlot().str());
}

StringAttr reportedName(Value value, Operation *user) {
  Operation *maker = value.getDefiningOp();
  if (StringAttr name = maker ? ownName(maker) : StringAttr())
    return name;
  Operation *first = nullptr;
  for (Operation *other : value.getUsers()) {
    other = user->getBlock()->findAncestorOpInBlock(*other);
    if (other && ownName(other) && (!first || other->isBeforeInBlock(first)))
      first = other;
  }
  return first ? ownName(first) : StringAttr();
}

void noteExchange(Operation *exchange, ShardingAttr from, ShardingAttr to) {
  exchange->setAttr("dist.from", from);
  exchange->setAttr("dist.to", to);
}

bool isPassing(NamedAttribute attribute) {
  StringRef name = attribute.getName().getValue();
  return name.starts_with("dist.") && name != "dist.from" && name != "dist.to";
}

ShardingAttr placementOf(Value value) {
  if (auto reshard = value.getDefiningOp<dist::ReshardOp>())
    return reshard.getTarget();
  if (Operation *op = value.getDefiningOp())
    return cast<ShardingAttr>(
        op->getAttrOfType<ArrayAttr>("dist.out")[cast<OpResult>(value).getResultNumber()]);
  auto argument = cast<BlockArgument>(value);
  Operation *parent = argument.getOwner()->getParentOp();
  if (isa<RepeatOpInterface>(parent))
    return cast<ShardingAttr>(
        parent->getAttrOfType<ArrayAttr>("dist.arguments")[argument.getArgNumber()]);
  auto function = cast<FunctionOpInterface>(parent);
  return function.getArgAttrOfType<ShardingAttr>(argument.getArgNumber(), "dist.sharding");
}

} // namespace cleave

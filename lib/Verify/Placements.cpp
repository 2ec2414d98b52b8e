//===- Placements.cpp - Where the values of a distributed program lie ------===//

#include "lib/Verify/Placements.h"
#include "cleave/Support/Diagnostics.h"
#include "cleave/Transforms/Sharding/Sharding.h"
#include "cleave/Verify/Training.h"
#include "lib/Verify/Origins.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
namespace cleave {

/// Calls `visit` with the operators of all functions of all parts that have a path.
static void forEachPathOp(ModuleOp module,
                          function_ref<void(size_t, ModuleOp, func::FuncOp, Operation *)> visit) {
  for (auto [number, part] : llvm::enumerate(programsIn(module)))
    for (auto function : part.getOps<func::FuncOp>())
      function.walk([&, number = number, part = part](Operation *op) {
        if (op->hasAttr("nn.path"))
          visit(number, part, function, op);
      });
}

rt::StatusOr<Placements> Placements::read(ModuleOp applied) {
  OwningOpRef<ModuleOp> copy = applied.clone();
  CLEAVE_RT_RETURN_IF_ERROR(withDiagnostics(*applied.getContext(), [&]() -> LogicalResult {
    for (ModuleOp part : programsIn(*copy))
      if (failed(propagateShardings(part)))
        return failure();
    return success();
  }));
  Placements placements;
  forEachPathOp(*copy, [&](size_t part, ModuleOp, func::FuncOp function, Operation *op) {
    auto origin = originOf(op);
    auto out = op->getAttrOfType<ArrayAttr>("dist.out");
    if (!origin || !out || out.size() != op->getNumResults())
      return;
    Placed placed{*origin, {}, {}};
    for (auto [type, sharding] :
         llvm::zip(op->getResultTypes(), out.getAsRange<dist::ShardingAttr>())) {
      placed.types.push_back(cast<RankedTensorType>(type));
      placed.shardings.push_back(sharding);
    }
    placements.placed.try_emplace({part, function.getName().str(), *origin}, std::move(placed));
  });
  return placements;
}

/// Whether `op` has the blocks of `placed` as its results.
static bool holds(Operation *op, const Placed &placed, const dist::Mesh &mesh) {
  return op->getNumResults() == placed.types.size() &&
         llvm::all_of(llvm::zip(op->getResultTypes(), placed.types, placed.shardings),
                      [&](auto all) {
                        auto [type, whole, sharding] = all;
                        return type == dist::localType(whole, sharding, mesh);
                      });
}

static dist::Mesh meshOf(ModuleOp part) { return dist::Mesh(*part.getOps<dist::MeshOp>().begin()); }

PlacedOps Placements::locate(ModuleOp program) const {
  // Of several operators that one became, the last that fits has its results.
  std::map<const Placed *, Operation *> last;
  forEachPathOp(program, [&](size_t number, ModuleOp part, func::FuncOp function, Operation *op) {
    auto origin = originOf(op);
    if (!origin)
      return;
    auto it = placed.find({number, function.getName().str(), *origin});
    if (it != placed.end() && holds(op, it->second, meshOf(part)))
      last[&it->second] = op;
  });
  PlacedOps located;
  for (auto [entry, op] : last)
    located[op] = entry;
  return located;
}

PlacedOps Placements::locateEdited(ModuleOp edited, ModuleOp program) const {
  using Signature = std::tuple<size_t, std::string, std::string, std::string>;
  const PlacedOps known = locate(program);
  std::map<Signature, std::vector<const Placed *>> list;
  auto signature = [](size_t part, func::FuncOp function, Operation *op) {
    return Signature{part, function.getName().str(), op->getAttrOfType<StringAttr>("nn.path").str(),
                     op->getName().getStringRef().str()};
  };
  forEachPathOp(program, [&](size_t part, ModuleOp, func::FuncOp function, Operation *op) {
    list[signature(part, function, op)].push_back(known.lookup(op));
  });
  std::map<Signature, size_t> seen;
  PlacedOps located;
  const SmallVector<ModuleOp> parts = programsIn(program);
  forEachPathOp(edited, [&](size_t part, ModuleOp, func::FuncOp function, Operation *op) {
    const Signature key = signature(part, function, op);
    const size_t at = seen[key]++;
    auto it = list.find(key);
    if (it == list.end() || at >= it->second.size())
      return;
    const Placed *entry = it->second[at];
    if (entry && holds(op, *entry, meshOf(parts[part])))
      located[op] = entry;
  });
  return located;
}

} // namespace cleave

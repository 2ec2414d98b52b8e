//===- Check.cpp - Names and addresses of a program ------------------------===//
//
// What needs the whole program, the mesh and the kernels: that names are there,
// that addresses lie in their segments in every iteration, that sizes fit groups
// and kernels. Each error stands at the operator that is wrong.
//
//===----------------------------------------------------------------------===//

#include "dialects/Exec/Exec.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

/// "a, b, c", or "none".
static std::string listOf(ArrayRef<StringRef> names) {
  return names.empty() ? "none" : llvm::join(names, ", ");
}

namespace {
class ProgramChecker {
public:
  ProgramChecker(ProgramOp program, dist::Mesh mesh, SymbolTableCollection &symbols)
      : program(program), mesh(std::move(mesh)), symbols(symbols) {}

  LogicalResult check() {
    if (program.getPart()) {
      auto ranks = ranksAlong(program, dist::axesOf(program.getOverAttr()));
      if (failed(ranks))
        return failure();
      if (static_cast<int64_t>(*program.getPart()) >= *ranks)
        return program.emitOpError()
               << "is part " << *program.getPart() << " of a pipeline of " << *ranks << " ranks";
    }
    for (auto segment : program.getOps<SegmentOp>()) {
      segments[segment.getName()] = static_cast<int64_t>(segment.getBytes());
      segmentNames.push_back(segment.getName());
    }
    for (auto group : program.getOps<GroupOp>()) {
      auto members = ranksAlong(group, dist::axesOf(group.getAxes()));
      if (failed(members) || failed(checkMembers(group, *members)))
        return failure();
      groups[group.getName()] =
          group.getMembers() ? static_cast<int64_t>(group.getMembers()->size()) : *members;
      groupNames.push_back(group.getName());
      if (group.getBeside())
        besideGroups.insert(group.getName());
    }
    for (Operation &op : program.getBody().front())
      if (failed(checkPart(op)))
        return failure();
    return success();
  }

private:
  LogicalResult checkPart(Operation &op) {
    if (auto table = dyn_cast<TableOp>(op))
      return checkAddress(&op, table.getAt(), 4, 1);
    if (auto exchange = dyn_cast<ExchangeOp>(op))
      return checkAddress(&op, exchange.getAt(), 4, 1);
    if (auto state = dyn_cast<StateOp>(op))
      return checkState(state);
    if (auto stage = dyn_cast<StageOp>(op)) {
      for (AtAttr at : stage.getAddresses())
        if (failed(checkAddress(stage, at, 4, 1)))
          return failure();
      return success();
    }
    if (auto index = dyn_cast<RankIndexOp>(op)) {
      auto ranks = ranksAlong(index, dist::axesOf(index.getAxes()));
      if (failed(ranks))
        return failure();
      int64_t last;
      if (llvm::MulOverflow<int64_t>(index.getScale(), *ranks - 1, last) || !llvm::isInt<32>(last))
        return op.emitOpError() << "goes beyond an i32 on the last of " << *ranks << " ranks";
      return checkAddress(&op, index.getAt(), 4, 1);
    }
    if (auto entry = dyn_cast<EntryOp>(op))
      for (Operation &inner : entry.getBody().front()) {
        auto repeat = dyn_cast<RepeatOp>(inner);
        if (!repeat && failed(checkCommand(cast<CommandOpInterface>(inner), 1)))
          return failure();
        if (repeat)
          for (Operation &command : repeat.getBody().front())
            if (failed(checkCommand(cast<CommandOpInterface>(command), repeat.getIterations())))
              return failure();
      }
    return success();
  }

  LogicalResult checkCommand(CommandOpInterface command, int64_t iterations) {
    const bool isRepeated = command->getParentOfType<RepeatOp>() != nullptr;
    if (!isRepeated && command.getAhead() != 0)
      return command->emitOpError("is ahead of the turns of a repeat, but stands in none");
    if (auto bucket = dyn_cast<BesideOp>(command.getOperation())) {
      for (Operation &exchange : bucket.getBody().front())
        if (failed(checkCommand(cast<CommandOpInterface>(exchange), iterations)))
          return failure();
      return success();
    }
    for (AtAttr at : command.getAddresses()) {
      if ((at.getStep() != 0 || at.getPeriod() != 0) && !isRepeated)
        return command->emitOpError()
               << "moves by " << at.getStep() << " bytes outside of a repeat";
      if (failed(checkAddress(command, at, command.getAlignment(), iterations)))
        return failure();
    }
    if (auto launch = dyn_cast<LaunchOp>(command.getOperation()))
      return checkKernel(launch);
    StringAttr group = command.getGroupAttr();
    if (!group)
      return success();
    auto it = groups.find(group.getValue());
    if (it == groups.end())
      return command->emitOpError()
             << "names no group: " << group << "; groups: " << listOf(groupNames);
    if (isa<BesideOp>(command->getParentOp()) != besideGroups.contains(group.getValue()))
      return command->emitOpError()
             << "is " << (besideGroups.contains(group.getValue()) ? "not " : "")
             << "in a bucket, which the group " << group << " is "
             << (besideGroups.contains(group.getValue()) ? "for" : "not for");
    return command.verifyGroup(it->second);
  }

  /// The first and the last iteration reach furthest, or the last of a period.
  LogicalResult checkAddress(Operation *op, AtAttr at, int64_t alignment, int64_t iterations) {
    auto it = segments.find(at.getSegment().getValue());
    if (it == segments.end())
      return op->emitOpError() << "names no segment: " << at.getSegment()
                               << "; segments: " << listOf(segmentNames);
    const int64_t places = at.getPeriod() ? std::min(at.getPeriod(), iterations) : iterations;
    for (int64_t i : {int64_t(0), places - 1}) {
      int64_t offset = at.offsetIn(i);
      if (offset >= 0 && at.getBytes() <= it->second - offset)
        continue;
      InFlightDiagnostic error = op->emitOpError()
                                 << "takes " << at.getBytes() << " bytes at " << offset
                                 << " of the segment " << at.getSegment() << ", which has "
                                 << it->second;
      if (iterations > 1)
        error << ", in iteration " << i;
      return error;
    }
    if (at.getOffset() % alignment != 0 || at.getStep() % alignment != 0)
      return op->emitOpError() << "has an address that is no multiple of " << alignment
                               << " bytes in every iteration";
    return success();
  }

  /// Arguments that are tensors say their sizes; other kernels know them by heart.
  LogicalResult checkKernel(LaunchOp launch) {
    auto kernel = dyn_cast_or_null<FunctionOpInterface>(
        symbols.lookupNearestSymbolFrom(program, launch.getKernelAttr()));
    if (!kernel)
      return launch.emitOpError() << "names no kernel: " << launch.getKernelAttr();
    ArrayRef<Type> types = kernel.getArgumentTypes();
    auto isSized = [](Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return tensor && tensor.hasStaticShape() && tensor.getElementType().isIntOrFloat();
    };
    if (!llvm::all_of(types, isSized))
      return success();
    if (types.size() != launch.getArgs().size())
      return launch.emitOpError() << "gives " << launch.getArgs().size() << " addresses to "
                                  << launch.getKernelAttr() << ", which takes " << types.size();
    for (auto [i, type, at] : llvm::enumerate(types, launch.getAddresses())) {
      auto tensor = cast<RankedTensorType>(type);
      int64_t bytes = tensor.getNumElements() * elementBytes(tensor.getElementType());
      if (at.getBytes() != bytes)
        return launch.emitOpError()
               << "gives " << at.getBytes() << " bytes to argument " << i << " of "
               << launch.getKernelAttr() << ", a " << tensor << " of " << bytes;
    }
    return success();
  }

  LogicalResult checkState(StateOp state) {
    for (auto [slot, sharding] : llvm::zip(state.getSlots(), state.getSlotShardings())) {
      dist::Axes used;
      for (unsigned d = 0; d < state.getShape().size(); ++d)
        llvm::append_range(used, sharding.axes(d));
      if (failed(ranksAlong(state, used)))
        return failure();
      if (!slot)
        continue;
      int64_t bytes = 4 * HostTensor::count(dist::localShape(state.getShape(), sharding, mesh));
      if (slot.getBytes() != bytes)
        return state.emitOpError() << "has a slot of " << slot.getBytes()
                                   << " bytes; the block of a rank has " << bytes;
      if (failed(checkAddress(state, slot, 4, state.getCount())))
        return failure();
    }
    return success();
  }

  static LogicalResult checkMembers(GroupOp group, int64_t ranks) {
    auto members = group.getMembers();
    if (!members)
      return success();
    if (!members->empty() && llvm::is_sorted(*members, std::less_equal<>()) &&
        members->front() >= 0 && members->back() < ranks)
      return success();
    return group.emitOpError() << "needs members from 0 to " << ranks - 1 << ", in order";
  }

  /// Number of ranks along `axes`, none of which may come twice.
  FailureOr<int64_t> ranksAlong(Operation *op, const dist::Axes &axes) {
    for (auto [i, axis] : llvm::enumerate(axes)) {
      if (mesh.find(axis.getValue()) < 0)
        return op->emitOpError() << "names no axis of " << program.getMeshAttr() << ": " << axis;
      if (llvm::is_contained(ArrayRef(axes).take_front(i), axis))
        return op->emitOpError() << "uses the axis " << axis << " twice";
    }
    return mesh.size(axes);
  }

  ProgramOp program;
  dist::Mesh mesh;
  SymbolTableCollection &symbols;
  llvm::StringMap<int64_t> segments, groups;
  llvm::StringSet<> besideGroups;
  SmallVector<StringRef> segmentNames, groupNames;
};
} // namespace

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto mesh = symbols.lookupNearestSymbolFrom<dist::MeshOp>(*this, getMeshAttr());
  if (!mesh)
    return emitOpError() << "names no mesh: " << getMeshAttr();
  return ProgramChecker(*this, dist::Mesh(mesh), symbols).check();
}

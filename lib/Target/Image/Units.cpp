//===- Units.cpp - What runs as one step of a program ----------------------===//

#include "lib/Target/Image/Units.h"
#include "cleave/Target/CPU/LibraryKernels.h"
#include "cleave/Transforms/Fusion/Fusion.h"
#include "dialects/Dist/Dist.h"
#include "llvm/ADT/SetVector.h"
#include <queue>

using namespace mlir;
namespace cleave::image {

namespace {
/// Orders units by what they need of each other.
class Ordering {
public:
  Ordering(Block &block, std::vector<Unit> units) : units(std::move(units)) {
    // What stands in a block that repeats is of the unit of that block.
    for (auto [i, unit] : llvm::enumerate(this->units)) {
      auto add = [&, unit = i](Operation *op) {
        op->walk([&](Operation *inner) { unitOf[inner] = unit; });
      };
      for (Operation *op : unit.ops)
        add(op);
      if (unit.bucket)
        for (const Unit &inner : unit.body)
          llvm::for_each(inner.ops, add);
    }
    int64_t n = 0;
    block.walk<WalkOrder::PreOrder>([&](Operation *op) { place[op] = n++; });
    after.resize(this->units.size());
    waits.resize(this->units.size());
  }

  FailureOr<std::vector<Unit>> run() {
    for (auto &[op, i] : unitOf)
      for (Value v : op->getOperands())
        if (auto it = unitOf.find(v.getDefiningOp()); it != unitOf.end())
          addEdge(it->second, i);
    orderState();
    return sorted();
  }

private:
  void addEdge(size_t before, size_t behind) {
    if (before != behind && after[before].insert(behind))
      ++waits[behind];
  }

  /// Accesses to one slot keep their order, and whoever reads a loaded value
  /// does so before the slot changes.
  void orderState() {
    std::map<std::pair<std::string, std::string>, SmallVector<Operation *>> accesses;
    SmallVector<Operation *> inOrder;
    for (auto &[op, i] : unitOf)
      if (isa<StateOpInterface>(op))
        inOrder.push_back(op);
    llvm::sort(inOrder, [&](Operation *a, Operation *b) { return place[a] < place[b]; });
    for (Operation *op : inOrder) {
      auto state = cast<StateOpInterface>(op);
      auto &earlier =
          accesses[{state.getStateSymbol().str(), memoryOf(state.getStateSlot()).str()}];
      for (Operation *before : earlier) {
        addEdge(unitOf[before], unitOf[op]);
        if (state.getStateAccess() != StateAccess::Read)
          for (Operation *reader : before->getUsers())
            orderReader(reader, op);
      }
      earlier.push_back(op);
    }
  }

  /// `change` comes behind `reader`; behind the wait for it, where that is under way.
  void orderReader(Operation *reader, Operation *change) {
    if (auto it = unitOf.find(reader); it != unitOf.end())
      addEdge(it->second, unitOf[change]);
    if (auto bucket = dist::bucketOf(reader); bucket && bucket->turn == dist::Bucket::Same)
      for (Operation *user : reader->getUsers())
        if (auto it = unitOf.find(user); it != unitOf.end())
          addEdge(it->second, unitOf[change]);
  }

  FailureOr<std::vector<Unit>> sorted() {
    using Item = std::pair<int64_t, size_t>; // where the unit's last operator stood
    std::priority_queue<Item, std::vector<Item>, std::greater<>> ready;
    // What is done for the next iteration begins as early as it can.
    auto push = [&](size_t i) {
      const bool isAhead = units[i].bucket && units[i].bucket->turn == dist::Bucket::Before;
      ready.push({isAhead ? -1 : place[units[i].ops.back()], i});
    };
    for (size_t i = 0; i < units.size(); ++i)
      if (waits[i] == 0)
        push(i);
    std::vector<Unit> out;
    while (!ready.empty()) {
      size_t i = ready.top().second;
      ready.pop();
      for (size_t next : after[i])
        if (--waits[next] == 0)
          push(next);
      out.push_back(std::move(units[i]));
    }
    if (out.size() == units.size())
      return out;
    for (size_t i = 0; i < units.size(); ++i)
      if (waits[i] != 0)
        return units[i].ops.front()->emitOpError("is part of a cycle of fusion groups");
    return failure();
  }

  std::vector<Unit> units;
  llvm::MapVector<Operation *, size_t> unitOf;
  llvm::DenseMap<Operation *, int64_t> place;
  std::vector<llvm::SmallSetVector<size_t, 4>> after;
  std::vector<int64_t> waits;
};
} // namespace

static FailureOr<Unit> singleUnit(Operation *op, ModuleOp kernels, const cpu::Profile &profile) {
  Unit unit;
  unit.ops.push_back(op);
  llvm::append_range(unit.inputs, op->getOperands());
  llvm::append_range(unit.outputs, op->getResults());
  if (isa<dist::AllReduceOp, dist::StageSumOp>(op))
    unit.inPlace.push_back({op->getResult(0), op->getOperand(0)});
  auto library = dyn_cast<LibraryKernelOpInterface>(op);
  for (const LibraryKernel &request :
       library ? library.getLibraryKernels() : SmallVector<LibraryKernel>()) {
    auto kernel = cpu::addLibraryKernel(kernels, request, profile);
    if (failed(kernel))
      return failure();
    KernelCall call;
    call.symbol = kernel->symbol;
    call.extent = kernel->extent;
    call.grain = kernel->grain;
    call.flops = kernel->flops;
    for (unsigned i : request.operands)
      call.args.push_back(op->getOperand(i));
    for (unsigned i : request.results)
      call.args.push_back(Value(op->getResult(i)));
    call.results = request.results.size();
    unit.kernels.push_back(std::move(call));
  }
  return unit;
}

/// A fusion group and its one kernel.
static Unit kernelUnit(KernelGroup &group, llvm::DenseSet<Operation *> &grouped) {
  Unit unit;
  unit.ops = group.ops;
  grouped.insert(group.ops.begin(), group.ops.end());
  KernelCall call;
  call.symbol = group.symbol;
  call.extent = group.extent;
  call.grain = group.grain;
  call.bytes = static_cast<double>(group.bytes);
  call.flops = static_cast<double>(group.flops);
  for (KernelInput &input : group.inputs) {
    if (input.value) {
      unit.inputs.push_back(input.value);
      call.args.push_back(input.value);
    } else {
      call.args.push_back(*input.extra);
    }
  }
  call.results = group.outputs.size();
  for (KernelOutput &output : group.outputs) {
    unit.outputs.push_back(output.value);
    call.args.push_back(output.value);
    if (output.inPlace)
      unit.inPlace.push_back({output.value, output.inPlace, /*must=*/true});
  }
  unit.kernels.push_back(std::move(call));
  return unit;
}

/// Makes one unit of the exchanges of each bucket, and of what is to run apart with them.
static FailureOr<std::vector<Unit>> joinBuckets(Block &block, std::vector<Unit> units) {
  std::vector<Unit> joined;
  std::map<int64_t, Unit> buckets;
  std::map<int64_t, std::vector<Unit>> companions;
  for (Unit &unit : units) {
    Operation *op = unit.ops.front();
    if (auto bucket = dist::bucketOf(op)) {
      Unit &whole = buckets[bucket->number];
      whole.bucket = bucket;
      llvm::append_range(whole.ops, unit.ops);
      llvm::append_range(whole.inputs, unit.inputs);
      llvm::append_range(whole.outputs, unit.outputs);
      llvm::append_range(whole.inPlace, unit.inPlace);
    } else if (auto apart = op->getAttrOfType<IntegerAttr>(kFusionApartAttr)) {
      companions[apart.getInt()].push_back(std::move(unit));
    } else {
      joined.push_back(std::move(unit));
    }
  }
  for (auto &[number, bucket] : buckets) {
    auto body = Ordering(block, std::move(companions[number])).run();
    if (failed(body))
      return failure();
    bucket.body = std::move(*body);
    joined.push_back(std::move(bucket));
  }
  return joined;
}

/// Whether `unit`, or what it repeats, uses one of `values`.
static bool usesAny(const Unit &unit, ValueRange values) {
  return llvm::any_of(values, [&](Value v) {
    return llvm::any_of(v.getUsers(), [&](Operation *user) {
      return llvm::any_of(unit.ops, [&](Operation *op) { return op->isAncestor(user); });
    });
  });
}

/// Notes for each bucket of a block that runs once which unit is the first to need it.
static LogicalResult noteAwaits(std::vector<Unit> &units) {
  for (size_t i = 0; i < units.size(); ++i) {
    if (!units[i].bucket || units[i].bucket->turn != dist::Bucket::Same)
      continue;
    auto first = std::find_if(units.begin() + i + 1, units.end(),
                              [&](const Unit &unit) { return usesAny(unit, units[i].outputs); });
    if (first == units.end())
      return units[i].ops.front()->emitOpError("is done beside what comes behind it, of which "
                                               "nothing needs its result");
    first->awaited.push_back(units[i].bucket->number);
  }
  return success();
}

StringRef memoryOf(StringRef slot) { return slot == "reduced" ? "gradient" : slot; }

FailureOr<std::vector<Unit>> makeUnits(Block &block, KernelTable &kernels,
                                       const cpu::Profile &profile) {
  // First, so that kernels have the names of layers rather than of what is around.
  llvm::DenseMap<Operation *, std::vector<Unit>> bodies;
  for (auto repeat : block.getOps<RepeatOpInterface>()) {
    auto body = makeUnits(repeat.getRepeatedBlock(), kernels, profile);
    if (failed(body))
      return failure();
    bodies[repeat] = std::move(*body);
  }
  auto groups = outlineKernels(block, kernels);
  if (failed(groups))
    return failure();
  std::vector<Unit> units;
  llvm::DenseSet<Operation *> grouped;
  for (KernelGroup &group : *groups)
    units.push_back(kernelUnit(group, grouped));
  for (Operation &op : block.without_terminator())
    if (!grouped.contains(&op)) {
      auto unit = singleUnit(&op, kernels.getModule(), profile);
      if (failed(unit))
        return failure();
      if (auto it = bodies.find(&op); it != bodies.end())
        unit->body = std::move(it->second);
      units.push_back(std::move(*unit));
    }
  auto joined = joinBuckets(block, std::move(units));
  if (failed(joined))
    return failure();
  auto ordered = Ordering(block, std::move(*joined)).run();
  if (failed(ordered) || failed(noteAwaits(*ordered)))
    return failure();
  return ordered;
}

} // namespace cleave::image

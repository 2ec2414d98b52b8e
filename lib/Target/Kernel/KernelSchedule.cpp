//===- KernelSchedule.cpp - order and vectorise a kernel's roots ----------===//

#include "lib/Target/Kernel/KernelSchedule.h"
#include <map>
#include <numeric>

using namespace mlir;

namespace cleave::target {

static int64_t product(ArrayRef<int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t(1), std::multiplies<>());
}

/// Whether `index` is the element itself of a [rows, ...] value: (d0, d1, ...).
static bool isOwnElement(ArrayRef<LinearExpr> index, ArrayRef<int64_t> shape) {
  unsigned next = 1;
  for (auto [i, expr, extent] : llvm::enumerate(index, shape)) {
    if (i == 0 ? !expr.isDim(0) : extent == 1 ? !(expr == LinearExpr(0)) : !expr.isDim(next++))
      return false;
  }
  return true;
}

static bool readsOldContents(const Kernel &kernel, unsigned arg) {
  return llvm::any_of(kernel.roots, [&](const Root &root) {
    return llvm::any_of(root.loads, [&](const Load &load) { return load.arg == arg; });
  });
}

/// Whether all uses read the element at their own place, at the same extents.
static bool usedInPlace(Value value, ArrayRef<HeavyUse> uses) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
  return llvm::all_of(uses, [&](const HeavyUse &use) { return isOwnElement(use.index, shape); });
}

std::vector<Value> valuesWorthStoring(const Kernel &kernel, const HeavyUses &uses) {
  std::vector<Value> result;
  int64_t stackBytes = 0;
  for (const Root &root : kernel.roots)
    for (const RootValue &slot : root.values)
      stackBytes += slot.dest ? 0 : 4 * slot.bufferSize;
  for (const auto &[value, list] : uses) {
    llvm::SmallSet<unsigned, 4> levels;
    for (const HeavyUse &use : list)
      levels.insert(use.root->level);
    auto type = cast<RankedTensorType>(value.getType());
    if (levels.size() < 2 || kernel.rootOf.count(value) || !usedInPlace(value, list) ||
        type.getRank() < 2 || type.getDimSize(0) != kernel.space)
      continue;
    int64_t bytes = 4 * product(type.getShape().drop_front());
    if (stackBytes + bytes > kernel.rowBytes)
      continue;
    stackBytes += bytes;
    result.push_back(value);
  }
  return result;
}

void placeStoredValue(Kernel &kernel, Root &root, ArrayRef<HeavyUse> uses) {
  RootValue &slot = root.values[0];
  auto type = cast<RankedTensorType>(slot.value.getType());
  unsigned lastUse = 0;
  for (const HeavyUse &use : uses)
    lastUse = std::max(lastUse, use.root->level);
  for (const HeavyUse &use : uses) {
    Root &user = *use.root;
    if (user.reduction || user.values.size() != 1 || !user.values[0].dest ||
        user.level != lastUse || user.values[0].value.getType() != type)
      continue;
    unsigned arg = user.values[0].dest->arg;
    bool taken = readsOldContents(kernel, arg) || llvm::any_of(kernel.roots, [&](const Root &r) {
                   return &r != &user && llvm::any_of(r.values, [&](const RootValue &v) {
                     return v.dest && v.dest->arg == arg;
                   });
                 });
    if (taken ||
        llvm::count_if(uses, [&](const HeavyUse &u) { return u.root->level == lastUse; }) != 1)
      continue;
    slot.dest = user.values[0].dest;
    return;
  }
  int64_t size = 1;
  slot.bufferStrides.assign(type.getRank(), 0);
  for (size_t dim = type.getRank(); dim-- > 1; size *= type.getDimSize(dim))
    slot.bufferStrides[dim] = size;
  slot.bufferSize = size;
}

/// The address a root's value is stored at if it is stored in an argument.
static std::optional<LinearExpr> storeAddress(const RootValue &slot) {
  if (!slot.dest)
    return std::nullopt;
  return slot.dest->address(slot.index);
}

static bool sameWalk(const Root &a, const Nest &nest) {
  if (a.scatter || nest.scatter || a.overRows != nest.overRows ||
      ArrayRef<int64_t>(a.extents) != ArrayRef<int64_t>(nest.extents))
    return false;
  unsigned all = a.extents.size();
  return a.firstReduction == nest.firstReduction || a.firstReduction == all ||
         nest.firstReduction == all;
}

static void formNests(Kernel &kernel) {
  std::map<unsigned, std::vector<Root *>> byLevel;
  for (Root &root : kernel.roots)
    byLevel[root.level].push_back(&root);
  kernel.nests.clear();
  for (auto &[level, roots] : byLevel) {
    size_t levelBegin = kernel.nests.size();
    for (Root *root : roots) {
      Nest *home = nullptr;
      for (Nest &nest : llvm::drop_begin(kernel.nests, levelBegin))
        if (!home && sameWalk(*root, nest))
          home = &nest;
      if (!home) {
        home = &kernel.nests.emplace_back();
        home->extents = root->extents;
        home->firstReduction = root->firstReduction;
        home->overRows = root->overRows;
        home->scatter = root->scatter;
      }
      home->firstReduction = std::min(home->firstReduction, root->firstReduction);
      home->roots.push_back(root);
    }
  }
}

/// A destination that is read must be written no earlier than its last read, and
/// in the nest of that read only element by element. Moves writes to later
/// levels; true if it moved one.
static FailureOr<bool> delayOverwrites(Kernel &kernel) {
  bool moved = false;
  llvm::DenseMap<Root *, unsigned> nestOf;
  for (auto [i, nest] : llvm::enumerate(kernel.nests))
    for (Root *root : nest.roots)
      nestOf[root] = i;
  for (Root &writer : kernel.roots)
    for (RootValue &slot : writer.values)
      for (Root &reader : kernel.roots)
        for (Load &load : reader.loads) {
          if (!slot.dest || slot.dest->arg != load.arg || nestOf[&reader] < nestOf[&writer])
            continue;
          bool sameElement = load.irregular.empty() && load.address == *storeAddress(slot);
          if (nestOf[&reader] == nestOf[&writer] && (sameElement || &reader == &writer)) {
            // A reduction reads its own old contents before it stores.
            if (sameElement || (writer.reduction && writer.firstReduction == 0))
              continue;
          }
          if (writer.reduction || &reader == &writer)
            return emitError(slot.value.getLoc(),
                             "overwrites a destination that the kernel still has to read");
          writer.level = std::max(
              writer.level, nestOf[&reader] == nestOf[&writer] ? reader.level + 1 : reader.level);
          if (writer.level == reader.level && nestOf[&reader] > nestOf[&writer] &&
              kernel.nests[nestOf[&writer]].roots[0]->level == reader.level)
            ++writer.level; // same level, but another nest that runs later
          moved = true;
        }
  return moved;
}

/// What one element of `root` costs if dimension `dim` (if any) runs over lanes:
/// streams count once per vector, strided accesses once per element and more.
static double elementCost(const Root &root, std::optional<unsigned> dim, unsigned lanes) {
  double cost = 0;
  auto add = [&](const LinearExpr &address, bool irregular) {
    int64_t coefficient = dim ? address.coefficient(*dim) : 0;
    bool strided = irregular || (coefficient != 0 && coefficient != 1);
    cost += strided ? 3.0 : 1.0 / (dim ? lanes : 1);
  };
  for (const Load &load : root.loads)
    add(load.address, dim && load.irregular.count(*dim));
  for (const RootValue &slot : root.values)
    if (std::optional<LinearExpr> address = storeAddress(slot); address && !root.reduction)
      add(*address, false);
  return cost + (1.0 + 8 * root.heavyOps) / (dim ? lanes : 1);
}

static double nestCost(const Nest &nest, std::optional<unsigned> dim, unsigned lanes) {
  double cost = 0;
  for (const Root *root : nest.roots)
    cost += elementCost(*root, dim, lanes);
  return cost * product(nest.extents);
}

/// Whether position `pos` of the nest's extents may run over lanes.
static bool allowsLanes(const Nest &nest, unsigned pos, unsigned lanes) {
  if (nest.extents[pos] < int64_t(lanes) || (nest.scatter && pos >= nest.firstReduction))
    return false;
  return llvm::all_of(nest.roots, [&](const Root *root) {
    return root->reassociable || pos < root->firstReduction;
  });
}

static void chooseLanes(Kernel &kernel) {
  double overRows = 0, insideRows = 0;
  bool rowsAllowed = kernel.space >= int64_t(kernel.lanes);
  for (Nest &nest : kernel.nests) {
    double best = nestCost(nest, std::nullopt, kernel.lanes);
    for (unsigned pos = nest.extents.size(); pos-- > 0;) {
      if (!allowsLanes(nest, pos, kernel.lanes))
        continue;
      double cost = nestCost(nest, pos + 1, kernel.lanes);
      if (cost < best) {
        best = cost;
        nest.laneDim = pos;
      }
    }
    if (!nest.overRows)
      continue;
    insideRows += best;
    overRows += nestCost(nest, 0u, kernel.lanes);
    rowsAllowed &= !nest.scatter;
  }
  for (const Root &root : kernel.roots)
    for (const RootValue &slot : root.values)
      rowsAllowed &= !slot.buffer || !root.overRows;
  kernel.lanesOverRows = rowsAllowed && overRows < insideRows;
  if (kernel.lanesOverRows)
    for (Nest &nest : kernel.nests)
      if (nest.overRows)
        nest.laneDim.reset();
}

LogicalResult scheduleNests(Kernel &kernel) {
  int64_t stackBytes = 0;
  for (int64_t size : kernel.bufferSizes)
    stackBytes += 4 * size;
  if (stackBytes > kernel.rowBytes)
    return kernel.func.emitError("one row needs ")
           << stackBytes << " bytes of intermediate values, more than " << kernel.rowBytes;
  // A scatter walks tokens, not rows: it does not share a kernel.
  for (Root &root : kernel.roots)
    root.scatter &= kernel.roots.size() == 1 && root.values[0].dest.has_value();
  formNests(kernel);
  for (size_t round = 0; round <= kernel.roots.size(); ++round) {
    FailureOr<bool> moved = delayOverwrites(kernel);
    if (failed(moved))
      return failure();
    if (!*moved) {
      chooseLanes(kernel);
      return success();
    }
    formNests(kernel);
  }
  return kernel.func.emitError("reads and writes of its destinations cannot be ordered");
}

} // namespace cleave::target

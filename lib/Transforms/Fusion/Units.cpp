//===- Units.cpp - Groups of operators and what they wait for --------------===//

#include "Units.h"
#include "dialects/Interfaces/Interfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/BitVector.h"
#include <map>
#include <queue>

using namespace mlir;
using namespace cleave;
using namespace cleave::fusion;

namespace {
/// The last operators that touched one kept tensor (or anything else).
struct Touched {
  std::optional<unsigned> write;
  SmallVector<unsigned> reads;
};
} // namespace

Units::Units(Block &block) {
  // Tensors kept by name are told apart; any other effect waits for all before it.
  std::map<std::pair<std::string, std::string>, Touched> state;
  std::optional<unsigned> barrier;
  for (Operation &op : block.without_terminator()) {
    unsigned i = ops.size();
    ops.push_back(&op);
    index[&op] = i;
    unit.push_back(i);
    memberLists.push_back({i});
    auto &deps = after.emplace_back();
    // What a repeat's block reads from around it, the repeat waits for.
    op.walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        if (int def = v.getDefiningOp() ? find(v.getDefiningOp()) : -1; def >= 0)
          deps.push_back(def);
    });
    if (isMemoryEffectFree(&op))
      continue;
    if (barrier)
      deps.push_back(*barrier);
    auto access = dyn_cast<StateOpInterface>(op);
    if (!access) {
      for (unsigned earlier = 0; earlier < i; ++earlier)
        deps.push_back(earlier);
      barrier = i;
      continue;
    }
    Touched &touched = state[{access.getStateSymbol().str(), access.getStateSlot().str()}];
    if (touched.write)
      deps.push_back(*touched.write);
    if (access.getStateAccess() == StateAccess::Read) {
      touched.reads.push_back(i);
    } else {
      llvm::append_range(deps, touched.reads);
      touched.reads.clear();
      touched.write = i;
    }
  }
}

bool Units::waitsThroughOthers(unsigned waiting, unsigned target) const {
  llvm::BitVector seen(ops.size());
  seen.set(waiting);
  SmallVector<unsigned> work;
  auto visit = [&](unsigned from) {
    for (unsigned dep : after[from]) {
      unsigned u = unit[dep];
      if (u != target && !seen.test(u)) {
        seen.set(u);
        work.push_back(u);
      }
    }
  };
  for (unsigned member : memberLists[waiting])
    visit(member);
  while (!work.empty()) {
    unsigned u = work.pop_back_val();
    for (unsigned member : memberLists[u]) {
      if (llvm::any_of(after[member], [&](unsigned dep) { return unit[dep] == target; }))
        return true;
      visit(member);
    }
  }
  return false;
}

void Units::merge(unsigned own, unsigned target) {
  if (own == target)
    return;
  for (unsigned member : memberLists[own]) {
    unit[member] = target;
    memberLists[target].push_back(member);
  }
  memberLists[own].clear();
  llvm::sort(memberLists[target]);
}

bool Units::reorder() {
  SmallVector<unsigned> waits(ops.size(), 0);
  SmallVector<SmallVector<unsigned>> readers(ops.size());
  for (unsigned i = 0; i < ops.size(); ++i)
    for (unsigned dep : after[i])
      if (unit[dep] != unit[i]) {
        readers[unit[dep]].push_back(unit[i]);
        ++waits[unit[i]];
      }
  // A unit stands where its last member stood.
  using Place = std::pair<unsigned, unsigned>;
  std::priority_queue<Place, std::vector<Place>, std::greater<>> ready;
  for (unsigned u = 0; u < ops.size(); ++u)
    if (!memberLists[u].empty() && waits[u] == 0)
      ready.push({memberLists[u].back(), u});
  SmallVector<unsigned> order;
  while (!ready.empty()) {
    unsigned u = ready.top().second;
    ready.pop();
    llvm::append_range(order, memberLists[u]);
    for (unsigned reader : readers[u])
      if (--waits[reader] == 0)
        ready.push({memberLists[reader].back(), reader});
  }
  if (order.size() != ops.size())
    return false;
  for (unsigned i : order)
    ops[i]->moveBefore(ops[i]->getBlock(), ops[i]->getBlock()->back().getIterator());
  return true;
}

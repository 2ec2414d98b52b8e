//===- Geometry.cpp - who computes which part of a kernel -----------------===//

#include "Geometry.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace cleave::cuda {
using namespace target;

/// Enough blocks to fill the largest devices, with a few for each of their cores.
static constexpr int64_t kMostGridBlocks = 2048;

int64_t productOf(ArrayRef<int64_t> extents) {
  int64_t product = 1;
  for (int64_t extent : extents)
    product *= extent;
  return product;
}

bool isScatter(const Nest &nest) {
  const Root *root = nest.roots.front();
  if (nest.roots.size() != 1 || !root->reduction || !root->overRows || root->firstReduction == 0)
    return false;
  for (auto [loop, expr] : llvm::enumerate(root->loops))
    if (expr.isDim(0))
      return matchScatter(root->reduction, loop).has_value();
  return false;
}

/// Whether elements may be computed in any order by threads that never meet: no
/// sums, nothing kept for later, and nobody reads what another element overwrites.
static bool isElementwise(const Kernel &kernel) {
  for (const Nest &nest : kernel.nests)
    for (const Root *root : nest.roots) {
      if (root->reduction || !root->overRows || !root->values[0].dest)
        return false;
      for (const Nest &other : kernel.nests)
        for (const Root *writer : other.roots)
          for (const RootValue &slot : writer->values)
            for (const Load &load : root->loads)
              if (slot.dest && slot.dest->arg == load.arg &&
                  (&other != &nest || !load.irregular.empty() ||
                   !(load.address == slot.dest->address(slot.index))))
                return false;
    }
  return true;
}

unsigned groupOf(const Kernel &kernel, const Nest &nest, Team team) {
  bool rows = nest.extents.empty();
  if (rows && team != Team::Grid)
    return 1;
  if (team == Team::Thread || team == Team::Column)
    return 1; // rows are the neighbours
  unsigned dim = rows ? 0 : nest.extents.size();
  if ((rows ? kernel.space : nest.extents.back()) % 4 != 0)
    return 1;
  for (const Root *root : nest.roots) {
    for (const Load &load : root->loads)
      if (load.address.coefficient(dim) == 1 && !load.irregular.count(dim))
        return 4;
    for (const RootValue &slot : root->values)
      if (slot.dest && slot.dest->address(slot.index).coefficient(dim) == 1)
        return 4;
  }
  return 1;
}

static Geometry gridOf(const Kernel &kernel) {
  Geometry geometry;
  int64_t steps = 1;
  for (const Nest &nest : kernel.nests)
    steps =
        std::max(steps, kernel.space * productOf(nest.extents) / groupOf(kernel, nest, Team::Grid));
  geometry.blocks = std::min<int64_t>(llvm::divideCeil(steps, geometry.threads), kMostGridBlocks);
  return geometry;
}

Geometry chooseGeometry(const Kernel &kernel) {
  if (isElementwise(kernel))
    return gridOf(kernel);
  int64_t work = 1, bufferBytes = 0;
  bool scatter = false;
  for (const Nest &nest : kernel.nests) {
    bool found = isScatter(nest);
    ArrayRef<int64_t> shared = nest.extents;
    // One thread for each element of a scattered row, below.
    work = std::max(work, found ? 4 * productOf(shared.take_front(nest.firstReduction))
                                : productOf(shared));
    scatter |= found;
  }
  for (int64_t size : kernel.bufferSizes)
    bufferBytes += 4 * size;

  Geometry geometry;
  if (kernel.lanesOverRows && !scatter && bufferBytes == 0) {
    bool many = work >= 16;
    geometry.team = many ? Team::Column : Team::Thread;
    geometry.teamSize = many ? std::min<int64_t>(llvm::PowerOf2Ceil(work / 8), 32) : 1;
    geometry.threads = many ? 32 * geometry.teamSize : 128;
  } else if (!scatter && work <= 512 && kernel.space > 1 && 4 * bufferBytes <= kSharedBytes) {
    geometry.team = Team::Warp;
    geometry.teamSize = 32;
    geometry.threads = 128;
  } else {
    // More threads leave each fewer registers, which many operands need.
    bool few = func::FuncOp(kernel.func).getNumArguments() <= 8;
    int64_t most = kernel.space == 1 && few ? 1024 : 512;
    int64_t wanted = llvm::PowerOf2Ceil(std::max<int64_t>(work / 4, 1));
    geometry.team = Team::Block;
    geometry.threads = std::clamp<int64_t>(wanted, 32, most);
    geometry.teamSize = geometry.threads;
  }
  geometry.blocks = llvm::divideCeil(kernel.space, geometry.rowsPerBlock());
  return geometry;
}

} // namespace cleave::cuda

//===- Compare.h - Blocks against the whole tensor -------------------------===//
#pragma once

#include "cleave/Interpreter/Interpreter.h"
#include "dialects/Dist/Dist.h"
#include <map>
#include <optional>

namespace cleave {

/// An element that a rank has otherwise than it should.
struct WrongElement {
  /// Of the mesh; the first of those that hold terms of a sum.
  int64_t rank = 0;
  /// In the whole tensor.
  llvm::SmallVector<int64_t> index;
  double got = 0, want = 0;
};

/// Compares what ranks hold with whole tensors. A difference counts by the largest
/// number of the tensor, or 1e-4 where all are smaller.
class BlockComparison {
public:
  explicit BlockComparison(double tolerance) : tolerance(tolerance) {}

  /// The first rank whose block is not that of `want`, and where it differs most; partial
  /// blocks are added up, padding does not count. `slack` adds to what an element may
  /// differ. NaN differs from all.
  std::optional<WrongElement> compare(const RankTensors &blocks, const HostTensor &want,
                                      dist::ShardingAttr sharding, const dist::Mesh &mesh,
                                      llvm::function_ref<double(size_t)> slack = {});
  /// The same for two whole tensors.
  std::optional<WrongElement> compare(const HostTensor &got, const HostTensor &want);

  /// The largest difference so far, in parts of what is tolerated, those with slack left out.
  double largest() const { return worst; }

private:
  /// For each rank, where the elements of its block lie in the whole; -1 is padding.
  const std::vector<std::vector<int64_t>> &
  placesOf(llvm::ArrayRef<int64_t> shape, dist::ShardingAttr sharding, const dist::Mesh &mesh);
  bool differs(double got, double want, double scale, double slack);

  double tolerance, worst = 0;
  using PlaceKey = std::tuple<const void *, std::vector<int64_t>, std::vector<int64_t>>;
  std::map<PlaceKey, std::vector<std::vector<int64_t>>> places;
};

} // namespace cleave

//===- Compare.cpp - Blocks against the whole tensor -----------------------===//

#include "lib/Verify/Compare.h"
#include <cmath>

using namespace mlir;
namespace cleave {

/// Tensors whose numbers are all smaller are compared as if they had this one: what is zero
/// but for rounding has no digits to agree in.
static constexpr double kLeastScale = 1e-4;

static double scaleOf(const HostTensor &tensor) {
  double largest = kLeastScale;
  for (double x : tensor.data)
    largest = std::max(largest, std::fabs(x));
  return largest;
}

static SmallVector<int64_t> indexOf(ArrayRef<int64_t> shape, int64_t at) {
  SmallVector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; at /= shape[d])
    index[d] = at % shape[d];
  return index;
}

const std::vector<std::vector<int64_t>> &BlockComparison::placesOf(ArrayRef<int64_t> shape,
                                                                   dist::ShardingAttr sharding,
                                                                   const dist::Mesh &mesh) {
  auto [it, fresh] =
      places.try_emplace({sharding.getAsOpaquePointer(), shape.vec(),
                          std::vector<int64_t>(mesh.sizes.begin(), mesh.sizes.end())});
  if (!fresh)
    return it->second;
  // Cut a tensor of positions, from 1: zeros are padding.
  HostTensor positions(shape);
  for (size_t i = 0; i < positions.data.size(); ++i)
    positions.data[i] = static_cast<double>(i + 1);
  const dist::ShardingAttr complete = sharding.complete();
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const HostTensor block = dist::cutBlock(positions, complete, mesh, rank);
    std::vector<int64_t> &of = it->second.emplace_back();
    for (double x : block.data)
      of.push_back(static_cast<int64_t>(x) - 1);
  }
  return it->second;
}

bool BlockComparison::differs(double got, double want, double scale, double slack) {
  const double difference = std::fabs(got - want);
  if (slack == 0 && difference > worst * tolerance * scale)
    worst = difference / (tolerance * scale);
  return !(difference <= tolerance * scale + slack);
}

std::optional<WrongElement> BlockComparison::compare(const RankTensors &blocks,
                                                     const HostTensor &want,
                                                     dist::ShardingAttr sharding,
                                                     const dist::Mesh &mesh,
                                                     function_ref<double(size_t)> slack) {
  const double scale = scaleOf(want);
  const auto &places = placesOf(want.shape, sharding, mesh);
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const SmallVector<int64_t> group = mesh.group(rank, sharding.getPartial());
    if (group.front() != rank)
      continue;
    std::optional<WrongElement> wrong;
    double most = 0;
    for (auto [i, at] : llvm::enumerate(places[rank])) {
      if (at < 0)
        continue;
      double got = 0;
      for (int64_t member : group)
        got += blocks[member].data[i];
      const double expected = want.data[at];
      if (!differs(got, expected, scale, slack ? slack(at) : 0))
        continue;
      const double by = std::fabs(got - expected);
      if (!wrong || by > most || std::isnan(by)) {
        wrong = {rank, indexOf(want.shape, at), got, expected};
        most = by;
      }
    }
    if (wrong)
      return wrong;
  }
  return std::nullopt;
}

std::optional<WrongElement> BlockComparison::compare(const HostTensor &got,
                                                     const HostTensor &want) {
  const double scale = scaleOf(want);
  std::optional<WrongElement> wrong;
  for (size_t i = 0; i < want.data.size(); ++i)
    if (differs(got.data[i], want.data[i], scale, 0) &&
        (!wrong || std::fabs(got.data[i] - want.data[i]) > std::fabs(wrong->got - wrong->want)))
      wrong = {0, indexOf(want.shape, static_cast<int64_t>(i)), got.data[i], want.data[i]};
  return wrong;
}

} // namespace cleave

//===- Dealing.cpp - Tensors dealt out to ranks, in all the ways there are -===//

#include "Dealing.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
namespace cleave::test {

using dist::Axes;
using dist::Mesh;
using dist::ShardingAttr;

int64_t Dealer::pick(int64_t from, int64_t to) {
  return std::uniform_int_distribution<int64_t>(from, to)(random);
}

HostTensor Dealer::tensor(ArrayRef<int64_t> shape) {
  HostTensor t(shape);
  for (double &x : t.data)
    x = std::uniform_real_distribution<double>(-1, 1)(random);
  return t;
}

Mesh Dealer::mesh() {
  Mesh mesh;
  for (int64_t i = 0, axes = pick(1, 3); i < axes; ++i) {
    mesh.names.push_back("a" + std::to_string(i));
    mesh.sizes.push_back(pick(1, axes == 3 ? 2 : 4));
  }
  return mesh;
}

Axes Dealer::shuffled(const Mesh &mesh) {
  Axes axes;
  for (const std::string &name : mesh.names)
    axes.push_back(StringAttr::get(&context, name));
  std::shuffle(axes.begin(), axes.end(), random);
  return axes;
}

ShardingAttr Dealer::sharding(const Mesh &mesh, int64_t rank, bool withPartial) {
  SmallVector<SmallVector<StringAttr>> dims(rank);
  Axes partial;
  for (StringAttr axis : shuffled(mesh)) {
    int64_t place = pick(0, rank + 1);
    if (place < rank)
      dims[place].push_back(axis);
    else if (place == rank && withPartial)
      partial.push_back(axis);
  }
  mesh.sort(partial);
  return ShardingAttr::get(&context, dims, partial);
}

/// 1 where a rank's block holds elements of the tensor, 0 in its padding.
static HostTensor inside(ArrayRef<int64_t> shape, ShardingAttr sharding, const Mesh &mesh,
                         int64_t rank) {
  return dist::cutBlock(HostTensor(shape, 1.0), sharding.complete(), mesh, rank);
}

RankTensors Dealer::deal(const HostTensor &whole, ShardingAttr sharding, const Mesh &mesh,
                         double padding) {
  Axes partial(sharding.getPartial());
  std::vector<HostTensor> terms;
  HostTensor rest = whole;
  for (int64_t i = 1, n = mesh.size(partial); i < n; ++i) {
    terms.push_back(tensor(whole.shape));
    for (int64_t k = 0; k < rest.size(); ++k)
      rest.data[k] -= terms.back().data[k];
  }
  terms.push_back(rest);
  RankTensors blocks;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const HostTensor &term = terms[mesh.coordinate(rank, partial)];
    blocks.push_back(dist::cutBlock(term, sharding.complete(), mesh, rank));
    HostTensor in = inside(whole.shape, sharding, mesh, rank);
    for (int64_t k = 0; k < in.size(); ++k)
      if (in.data[k] == 0.0)
        blocks.back().data[k] = padding;
  }
  return blocks;
}

void expectDealt(const RankTensors &blocks, const HostTensor &whole, ShardingAttr sharding,
                 const Mesh &mesh, double tolerance) {
  ASSERT_EQ(static_cast<int64_t>(blocks.size()), mesh.ranks());
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    HostTensor want = dist::cutBlock(whole, sharding.complete(), mesh, rank),
               in = inside(whole.shape, sharding, mesh, rank), sum(want.shape);
    for (int64_t peer : mesh.group(rank, sharding.getPartial())) {
      ASSERT_EQ(ArrayRef<int64_t>(blocks[peer].shape), ArrayRef<int64_t>(want.shape));
      for (int64_t k = 0; k < sum.size(); ++k)
        sum.data[k] += blocks[peer].data[k];
    }
    for (int64_t k = 0; k < sum.size(); ++k)
      if (in.data[k] != 0.0)
        ASSERT_TRUE(std::fabs(sum.data[k] - want.data[k]) <=
                    tolerance * (1 + std::fabs(want.data[k])))
            << "rank " << rank << ", element " << k << ": " << sum.data[k] << " for "
            << want.data[k];
  }
}

std::string text(const Mesh &mesh) {
  std::string out;
  for (auto [name, size] : llvm::zip(mesh.names, mesh.sizes))
    out += (out.empty() ? "" : " ") + name + "=" + std::to_string(size);
  return out;
}

} // namespace cleave::test

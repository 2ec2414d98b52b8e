//===- Dealing.cpp - Tensors dealt out to ranks, in all the ways there are -===//

#include "Dealing.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>

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

Mesh Dealer::wideMesh(int64_t ranks) {
  Mesh mesh;
  for (int64_t i = 0, axes = pick(1, 4); i < axes; ++i) {
    mesh.names.push_back("a" + std::to_string(i));
    mesh.sizes.push_back(pick(1, std::min<int64_t>(7, ranks)));
    ranks /= mesh.sizes.back();
  }
  std::shuffle(mesh.sizes.begin(), mesh.sizes.end(), random);
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
  return dealTerms(terms, sharding, mesh, padding);
}

RankTensors Dealer::dealApart(const HostTensor &whole, ShardingAttr sharding, const Mesh &mesh,
                              double padding) {
  const int64_t n = mesh.size(sharding.getPartial());
  std::vector<HostTensor> terms(n, HostTensor(whole.shape, 0.0));
  for (int64_t k = 0; k < whole.size(); ++k)
    terms[pick(0, n - 1)].data[k] = whole.data[k];
  return dealTerms(terms, sharding, mesh, padding);
}

RankTensors Dealer::dealTerms(ArrayRef<HostTensor> terms, ShardingAttr sharding, const Mesh &mesh,
                              double padding) {
  Axes partial(sharding.getPartial());
  RankTensors blocks;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const HostTensor &term = terms[mesh.coordinate(rank, partial)];
    blocks.push_back(dist::cutBlock(term, sharding.complete(), mesh, rank));
    HostTensor in = inside(term.shape, sharding, mesh, rank);
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

/// Where `rank` stands along each axis, the last one running fastest.
static std::map<std::string, int64_t> standing(const Mesh &mesh, int64_t rank) {
  std::map<std::string, int64_t> at;
  for (size_t i = mesh.names.size(); i-- > 0; rank /= mesh.sizes[i])
    at[mesh.names[i]] = rank % mesh.sizes[i];
  return at;
}

void expectDefined(const RankTensors &blocks, const HostTensor &whole, ShardingAttr sharding,
                   const Mesh &mesh, double tolerance) {
  std::map<std::string, int64_t> sizes;
  for (auto [name, size] : llvm::zip(mesh.names, mesh.sizes))
    sizes[name] = size;
  const size_t rank = whole.shape.size();
  for (int64_t r = 0; r < static_cast<int64_t>(blocks.size()); ++r) {
    // Whoever differs from r along the partial axes alone holds a term.
    std::vector<int64_t> terms;
    const auto mine = standing(mesh, r);
    for (int64_t other = 0; other < static_cast<int64_t>(blocks.size()); ++other)
      if (llvm::all_of(standing(mesh, other), [&](const auto &axis) {
            return mine.at(axis.first) == axis.second ||
                   llvm::any_of(sharding.getPartial(),
                                [&](StringAttr a) { return a.getValue() == axis.first; });
          }))
        terms.push_back(other);
    for (int64_t e = 0; e < whole.size(); ++e) {
      int64_t rest = e, local = 0, stride = 1;
      bool here = true;
      for (size_t d = rank; d-- > 0;) {
        const int64_t n = whole.shape[d], i = rest % n;
        rest /= n;
        int64_t ways = 1, place = 0;
        for (StringAttr axis : sharding.axes(static_cast<unsigned>(d))) {
          ways *= sizes.at(axis.str());
          place = place * sizes.at(axis.str()) + mine.at(axis.str());
        }
        const int64_t block = (n + ways - 1) / ways;
        here &= i / block == place;
        local += i % block * stride;
        stride *= block;
      }
      if (!here)
        continue;
      double sum = 0;
      for (int64_t term : terms)
        sum += blocks[term].data.at(local);
      ASSERT_TRUE(std::fabs(sum - whole.data[e]) <= tolerance * (1 + std::fabs(whole.data[e])))
          << "rank " << r << ", element " << e << ": " << sum << " for " << whole.data[e];
    }
  }
}

std::string text(const Mesh &mesh) {
  std::string out;
  for (auto [name, size] : llvm::zip(mesh.names, mesh.sizes))
    out += (out.empty() ? "" : " ") + name + "=" + std::to_string(size);
  return out;
}

} // namespace cleave::test

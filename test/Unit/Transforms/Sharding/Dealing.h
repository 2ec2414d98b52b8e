//===- Dealing.h - Tensors dealt out to ranks, in all the ways there are ---===//
//
// What tests of sharding share: random meshes and placements, a tensor's blocks
// under a placement, and the judgement whether blocks are those of a tensor.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/Interpreter/Interpreter.h"
#include "dialects/Dist/Dist.h"
#include <random>

namespace cleave::test {

/// Draws what a test needs, the same for the same seed.
class Dealer {
public:
  explicit Dealer(mlir::MLIRContext &context, unsigned seed) : context(context), random(seed) {}

  /// Uniform in [from, to].
  int64_t pick(int64_t from, int64_t to);
  HostTensor tensor(llvm::ArrayRef<int64_t> shape);
  /// One to three axes, of up to 4 ranks each, 8 in all for three.
  dist::Mesh mesh();
  /// One to four axes of 1 to 7 ranks each, at most `ranks` in all.
  dist::Mesh wideMesh(int64_t ranks);
  /// The axes of `mesh` in random order.
  dist::Axes shuffled(const dist::Mesh &mesh);
  /// Each axis cuts some dimension, or is partial (if `partial`), or is not used.
  dist::ShardingAttr sharding(const dist::Mesh &mesh, int64_t rank, bool partial);
  /// Every rank's block of `whole`: partial values as random terms, of which all
  /// holders of one have the same; `padding` beyond the tensor's end.
  RankTensors deal(const HostTensor &whole, dist::ShardingAttr sharding, const dist::Mesh &mesh,
                   double padding);
  /// The same for a placement that is apart: one holder, by chance, has each element, the
  /// others zero.
  RankTensors dealApart(const HostTensor &whole, dist::ShardingAttr sharding,
                        const dist::Mesh &mesh, double padding);

private:
  RankTensors dealTerms(llvm::ArrayRef<HostTensor> terms, dist::ShardingAttr sharding,
                        const dist::Mesh &mesh, double padding);

  mlir::MLIRContext &context;
  std::mt19937_64 random;
};

/// Fails the test unless the block of every rank, terms of partial values added
/// up, is that of `whole` under `sharding`, to `tolerance` relative to 1 + |want|.
void expectDealt(const RankTensors &blocks, const HostTensor &whole, dist::ShardingAttr sharding,
                 const dist::Mesh &mesh, double tolerance);

/// The same by the definition alone, without the mesh's own arithmetic: element i of n
/// that k ranks share is on rank i / ceil(n / k) of them.
void expectDefined(const RankTensors &blocks, const HostTensor &whole, dist::ShardingAttr sharding,
                   const dist::Mesh &mesh, double tolerance);

/// For messages: "x=2 y=3".
std::string text(const dist::Mesh &mesh);

} // namespace cleave::test

//===- ReshardTest.cpp - A reshard moves every element where it belongs ----===//
//
// Random shapes, meshes and placements: a tensor is dealt out as the source
// says, the collectives of `lowerReshard` are interpreted on all ranks, and
// every rank must then hold what the target says, element by element. Partial
// values are dealt out as random terms, padding holds NaN.
//
//===----------------------------------------------------------------------===//

#include "cleave/Interpreter/Interpreter.h"
#include "cleave/Transforms/Sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace mlir;
using namespace cleave;
using dist::Axes;
using dist::ShardingAttr;

namespace {
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kTolerance = 1e-12;

/// One question to `lowerReshard`.
struct Case {
  dist::Mesh mesh;
  SmallVector<int64_t> shape;
  ShardingAttr source, target;

  std::string text() const {
    std::string out;
    llvm::raw_string_ostream os(out);
    os << "mesh";
    for (auto [name, size] : llvm::zip(mesh.names, mesh.sizes))
      os << ' ' << name << '=' << size;
    os << ", shape";
    for (int64_t n : shape)
      os << ' ' << n;
    os << ", " << source << " to " << target;
    return out;
  }
};

class ReshardTest : public testing::Test {
protected:
  void SetUp() override { context.loadDialect<dist::DistDialect, func::FuncDialect>(); }

  int64_t pick(int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  }
  double number() { return std::uniform_real_distribution<double>(-1, 1)(random); }
  HostTensor randomTensor(ArrayRef<int64_t> shape) {
    HostTensor t(shape);
    for (double &x : t.data)
      x = number();
    return t;
  }

  /// Deals the mesh's axes out, in random order: to a dimension, to the partial
  /// list or to nobody.
  ShardingAttr randomSharding(const dist::Mesh &mesh, int64_t rank) {
    SmallVector<StringAttr> order;
    for (const std::string &name : mesh.names)
      order.push_back(StringAttr::get(&context, name));
    std::shuffle(order.begin(), order.end(), random);
    SmallVector<SmallVector<StringAttr>> dims(rank);
    Axes partial;
    for (StringAttr axis : order) {
      int64_t place = pick(0, rank + 1);
      if (place < rank)
        dims[place].push_back(axis);
      else if (place == rank)
        partial.push_back(axis);
    }
    mesh.sort(partial);
    return ShardingAttr::get(&context, dims, partial);
  }

  Case randomCase() {
    static const int64_t kExtents[] = {1, 2, 3, 4, 5, 6, 7, 8, 12};
    Case c;
    for (int64_t i = 0, axes = pick(1, 3); i < axes; ++i) {
      c.mesh.names.push_back("a" + std::to_string(i));
      c.mesh.sizes.push_back(pick(1, axes == 3 ? 2 : 4));
    }
    int64_t rank = pick(0, 3);
    for (int64_t d = 0; d < rank; ++d)
      c.shape.push_back(kExtents[pick(0, std::size(kExtents) - 1)]);
    c.source = randomSharding(c.mesh, rank);
    c.target = randomSharding(c.mesh, rank);
    return c;
  }

  /// Every rank's block of `whole` under `sharding`: partial values as random
  /// terms, of which all holders of one have the same; padding NaN.
  RankTensors deal(const HostTensor &whole, ShardingAttr sharding, const dist::Mesh &mesh) {
    Axes partial(sharding.getPartial());
    SmallVector<HostTensor> terms;
    HostTensor rest = whole;
    for (int64_t i = 1, n = mesh.size(partial); i < n; ++i) {
      terms.push_back(randomTensor(whole.shape));
      for (int64_t k = 0; k < rest.size(); ++k)
        rest.data[k] -= terms.back().data[k];
    }
    terms.push_back(rest);
    ShardingAttr cuts = sharding.complete();
    HostTensor ones(whole.shape, 1.0);
    RankTensors blocks;
    for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      blocks.push_back(dist::cutBlock(terms[mesh.coordinate(rank, partial)], cuts, mesh, rank));
      HostTensor inside = dist::cutBlock(ones, cuts, mesh, rank);
      for (int64_t k = 0; k < inside.size(); ++k)
        if (inside.data[k] == 0.0)
          blocks.back().data[k] = kNaN;
    }
    return blocks;
  }

  /// Builds the collectives and runs them; empty if that fails.
  RankTensors run(const Case &c, const RankTensors &blocks) {
    OpBuilder b(&context);
    Location loc = b.getUnknownLoc();
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    b.setInsertionPointToEnd(module->getBody());
    SmallVector<StringRef> names(c.mesh.names.begin(), c.mesh.names.end());
    dist::MeshOp::create(b, loc, "mesh", b.getStrArrayAttr(names), c.mesh.sizes);
    auto whole = RankedTensorType::get(c.shape, b.getF32Type());
    auto in = dist::localType(whole, c.source, c.mesh),
         out = dist::localType(whole, c.target, c.mesh);
    auto function = func::FuncOp::create(b, loc, "main", b.getFunctionType(in, out));
    b.setInsertionPointToStart(function.addEntryBlock());
    Value moved = lowerReshard(b, loc, function.getArgument(0), whole, c.source, c.target, c.mesh);
    func::ReturnOp::create(b, loc, moved);
    last = llvm::to_vector(llvm::map_range(function.getBody().front().without_terminator(),
                                           [](Operation &op) { return op.getName(); }));
    if (moved.getType() != out || failed(verify(*module)))
      return {};
    StateStore state;
    InterpreterOptions options;
    options.ranks = static_cast<unsigned>(c.mesh.ranks());
    options.refuseNaN = false;
    auto results =
        interpret(cast<FunctionOpInterface>(function.getOperation()), {blocks}, state, options);
    return succeeded(results) ? results->front() : RankTensors();
  }

  /// The block of every rank, terms of partial values added up, is the target's.
  void expectPlaced(const Case &c, const HostTensor &whole, const RankTensors &blocks) {
    ASSERT_EQ(static_cast<int64_t>(blocks.size()), c.mesh.ranks());
    ShardingAttr cuts = c.target.complete();
    HostTensor ones(whole.shape, 1.0);
    for (int64_t rank = 0; rank < c.mesh.ranks(); ++rank) {
      HostTensor want = dist::cutBlock(whole, cuts, c.mesh, rank),
                 inside = dist::cutBlock(ones, cuts, c.mesh, rank);
      HostTensor sum(want.shape);
      for (int64_t peer : c.mesh.group(rank, c.target.getPartial())) {
        ASSERT_EQ(blocks[peer].shape, want.shape);
        for (int64_t k = 0; k < sum.size(); ++k)
          sum.data[k] += blocks[peer].data[k];
      }
      for (int64_t k = 0; k < sum.size(); ++k)
        if (inside.data[k] != 0.0)
          ASSERT_TRUE(std::fabs(sum.data[k] - want.data[k]) <= kTolerance)
              << "rank " << rank << ", element " << k << ": " << sum.data[k] << " for "
              << want.data[k];
    }
  }

  void check(const Case &c) {
    SCOPED_TRACE(c.text());
    HostTensor whole = randomTensor(c.shape);
    expectPlaced(c, whole, run(c, deal(whole, c.source, c.mesh)));
  }

  MLIRContext context;
  std::mt19937_64 random{20260701};
  /// The collectives of the last run.
  SmallVector<OperationName> last;
};
} // namespace

TEST_F(ReshardTest, RandomPlacements) {
  for (int i = 0; i < 6000 && !HasFailure(); ++i)
    check(randomCase());
}

/// Nothing is exchanged for a value that lies where it should.
TEST_F(ReshardTest, StayingCostsNothing) {
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    Case c = randomCase();
    c.target = c.source;
    check(c);
    EXPECT_TRUE(last.empty()) << c.text();
  }
}

//===- ReshardTest.cpp - A reshard moves every element where it belongs ----===//
//
// Random shapes, meshes and placements: a tensor is dealt out as the source
// says, the collectives of `lowerReshard` are interpreted on all ranks, and
// every rank must then hold what the target says, element by element. Padding
// holds NaN.
//
//===----------------------------------------------------------------------===//

#include "Dealing.h"

#include "cleave/Transforms/Sharding/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include <gtest/gtest.h>
#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::test;
using dist::ShardingAttr;

namespace {
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kTolerance = 1e-12;

/// One question to `lowerReshard`.
struct Case {
  dist::Mesh mesh;
  SmallVector<int64_t> shape;
  ShardingAttr source, target;

  std::string describe() const {
    std::string out;
    llvm::raw_string_ostream os(out);
    os << "mesh " << text(mesh) << ", shape [";
    llvm::interleaveComma(shape, os);
    os << "], " << source << " to " << target;
    return out;
  }
};

class ReshardTest : public testing::Test {
protected:
  void SetUp() override { context.loadDialect<dist::DistDialect, func::FuncDialect>(); }

  Case randomCase() { return randomCase(dealer.mesh(), dealer.pick(0, 3)); }

  Case randomCase(dist::Mesh mesh, int64_t rank) {
    static const int64_t kExtents[] = {1, 2, 3, 4, 5, 6, 7, 8, 12};
    Case c;
    c.mesh = std::move(mesh);
    for (int64_t d = 0; d < rank; ++d)
      c.shape.push_back(kExtents[dealer.pick(0, std::size(kExtents) - 1)]);
    c.source = dealer.sharding(c.mesh, rank, /*partial=*/true);
    c.target = dealer.sharding(c.mesh, rank, /*partial=*/true);
    return c;
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
    Type in = dist::localType(whole, c.source, c.mesh),
         out = dist::localType(whole, c.target, c.mesh);
    auto function = func::FuncOp::create(b, loc, "main", b.getFunctionType(in, out));
    b.setInsertionPointToStart(function.addEntryBlock());
    Value moved = lowerReshard(b, loc, function.getArgument(0), whole, c.source, c.target, c.mesh);
    func::ReturnOp::create(b, loc, moved);
    collectives = function.getBody().front().getOperations().size() - 1;
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

  void check(const Case &c) {
    SCOPED_TRACE(c.describe());
    HostTensor whole = dealer.tensor(c.shape);
    RankTensors moved = run(c, dealer.deal(whole, c.source, c.mesh, kNaN));
    expectDealt(moved, whole, c.target, c.mesh, kTolerance);
  }

  MLIRContext context;
  Dealer dealer{context, 20260701};
  /// Operators that the last case took.
  size_t collectives = 0;
};
} // namespace

TEST_F(ReshardTest, RandomPlacements) {
  for (int i = 0; i < 6000 && !HasFailure(); ++i)
    check(randomCase());
}

/// Four axes, up to seven ranks along each, terms that are apart among them; judged by the
/// definition itself.
TEST_F(ReshardTest, WideMeshes) {
  for (int i = 0; i < 600 && !HasFailure(); ++i) {
    Case c = randomCase(dealer.wideMesh(60), dealer.pick(1, 3));
    const bool apart = i % 2 == 0 && c.source.isPartial();
    if (apart)
      c.source = ShardingAttr::get(&context, c.source.getDims(), c.source.getPartial(), true);
    SCOPED_TRACE(c.describe());
    const HostTensor whole = dealer.tensor(c.shape);
    const RankTensors blocks = apart ? dealer.dealApart(whole, c.source, c.mesh, kNaN)
                                     : dealer.deal(whole, c.source, c.mesh, kNaN);
    const RankTensors moved = run(c, blocks);
    ASSERT_EQ(static_cast<int64_t>(moved.size()), c.mesh.ranks());
    expectDefined(moved, whole, c.target, c.mesh, kTolerance);
  }
}

/// Nothing is exchanged for a value that lies where it should.
TEST_F(ReshardTest, StayingCostsNothing) {
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    Case c = randomCase();
    c.target = c.source;
    check(c);
    EXPECT_EQ(collectives, 0u) << c.describe();
  }
}

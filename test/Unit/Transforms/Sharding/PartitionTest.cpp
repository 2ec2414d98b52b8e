//===- PartitionTest.cpp - Every operator, cut in random ways --------------===//
//
// Each operator of nn gets a random assignment of mesh axes to its factors, and
// its operands random placements, partial ones included where the operator
// takes them as any value. Propagated, resharded and partitioned, the program
// must leave on every rank what the whole operator computes. Padding holds
// garbage.
//
//===----------------------------------------------------------------------===//

#include "../../NN/OpCase.h"
#include "Dealing.h"

#include "cleave/Transforms/Sharding/Sharding.h"
#include "mlir/IR/Verifier.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace cleave;
using namespace cleave::test;
using dist::ShardingAttr;

namespace {
constexpr double kGarbage = 7.5;
constexpr double kTolerance = 1e-11;
constexpr int kDraws = 40;

class PartitionTest : public testing::TestWithParam<OpCase> {
protected:
  /// Random factors take the axes; a quarter of the axes, and where there is no
  /// factor, nothing does.
  DictionaryAttr randomFactors(const ShardingRule &rule, const dist::Mesh &mesh) {
    std::map<std::string, SmallVector<Attribute>> axes;
    SmallVector<std::string> names;
    for (const Factor &f : rule.factors)
      if (f.shardable)
        names.push_back(f.name);
    for (StringAttr axis : dealer.shuffled(mesh))
      if (!names.empty() && dealer.pick(0, 3) > 0)
        axes[names[dealer.pick(0, names.size() - 1)]].push_back(axis);
    NamedAttrList list;
    for (auto &[name, of] : axes)
      list.set(name, ArrayAttr::get(context.get(), of));
    return list.getDictionary(context.get());
  }

  void draw() {
    Program program = buildProgram(*context, GetParam());
    ASSERT_TRUE(program.op);
    std::vector<HostTensor> operands = randomOperands(GetParam(), 5);
    std::vector<HostTensor> whole = run(program.function, operands);
    dist::Mesh mesh = dealer.mesh();
    OpBuilder b = OpBuilder::atBlockBegin(program.module->getBody());
    SmallVector<StringRef> names(mesh.names.begin(), mesh.names.end());
    dist::MeshOp::create(b, b.getUnknownLoc(), "mesh", b.getStrArrayAttr(names), mesh.sizes);
    auto rule = cast<ShardingRuleOpInterface>(program.op).getShardingRule();
    program.op->setAttr("dist.factors", randomFactors(rule, mesh));

    std::vector<RankTensors> blocks;
    for (auto [i, value] : llvm::enumerate(operands)) {
      auto type = cast<RankedTensorType>(program.function.getArgumentTypes()[i]);
      bool floats = isa<FloatType>(type.getElementType());
      ShardingAttr sharding = dealer.sharding(mesh, type.getRank(), floats);
      program.function.setArgAttr(i, "dist.sharding", sharding);
      blocks.push_back(dealer.deal(value, sharding, mesh, floats ? kGarbage : 0.0));
    }
    std::string before;
    llvm::raw_string_ostream os(before);
    program.module->print(os);
    SCOPED_TRACE(before);
    ASSERT_TRUE(succeeded(propagateShardings(*program.module)));
    ASSERT_TRUE(succeeded(insertReshards(*program.module)));
    ASSERT_TRUE(succeeded(partition(*program.module)));
    ASSERT_TRUE(succeeded(verify(*program.module)));
    StateStore state;
    InterpreterOptions options;
    options.ranks = static_cast<unsigned>(mesh.ranks());
    auto results = interpret(program.function, blocks, state, options);
    ASSERT_TRUE(succeeded(results));
    for (auto [i, value] : llvm::enumerate(*results))
      expectDealt(value, whole[i],
                  program.function.getResultAttrOfType<ShardingAttr>(i, "dist.sharding"), mesh,
                  kTolerance);
  }

  std::unique_ptr<MLIRContext> context = makeContext();
  Dealer dealer{*context, 7};
};
} // namespace

TEST_P(PartitionTest, RanksComputeTheWhole) {
  for (int i = 0; i < kDraws && !HasFailure(); ++i)
    draw();
}

INSTANTIATE_TEST_SUITE_P(NN, PartitionTest, testing::ValuesIn(allCases()),
                         [](const auto &info) { return caseName(info.param, info.index); });

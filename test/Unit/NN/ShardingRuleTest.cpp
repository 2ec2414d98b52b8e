//===- ShardingRuleTest.cpp - Rules checked by running the blocks ----------===//
//
// A sharding rule is a claim about numbers: run the local form of an operator
// on blocks, put the results together as the rule says, and the whole comes
// out. Here every factor of every operator is cut, evenly and unevenly, with
// padding that holds garbage wherever the rule calls padding harmless.
//
//===----------------------------------------------------------------------===//

#include "OpCase.h"

#include "dialects/Dist/Dist.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace cleave;
using namespace cleave::test;

namespace {
constexpr double kGarbage = 7.5;

/// A tensor as seen by one factor: outer · size · inner.
int findFactor(ArrayRef<int> dims, int factor) {
  const int *it = llvm::find(dims, factor);
  return it == dims.end() ? -1 : static_cast<int>(it - dims.begin());
}

/// Block `rank` of `whole` along `dim`, short blocks filled up with `padding`.
HostTensor cut(const HostTensor &whole, int dim, int64_t block, int64_t rank, double padding) {
  SmallVector<int64_t> shape(whole.shape);
  shape[dim] = block;
  HostTensor out(shape, padding);
  auto strides = whole.strides();
  int64_t position = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> i) {
    SmallVector<int64_t> at(i);
    at[dim] += rank * block;
    if (at[dim] < whole.shape[dim])
      out.data[position] = whole.data[linearIndex(at, strides)];
    ++position;
  });
  return out;
}

HostTensor join(const RankTensors &blocks, int dim, ArrayRef<int64_t> wholeShape) {
  HostTensor out(wholeShape);
  int64_t block = blocks[0].shape[dim], position = 0;
  auto strides = blocks[0].strides();
  forEachIndex(wholeShape, [&](ArrayRef<int64_t> i) {
    SmallVector<int64_t> at(i);
    at[dim] %= block;
    out.data[position++] = blocks[i[dim] / block].data[linearIndex(at, strides)];
  });
  return out;
}

HostTensor combine(const RankTensors &terms, ReductionKind kind) {
  HostTensor out = terms[0];
  for (const HostTensor &t : llvm::drop_begin(terms))
    for (int64_t i = 0; i < out.size(); ++i)
      out.data[i] =
          kind == ReductionKind::Sum ? out.data[i] + t.data[i] : std::max(out.data[i], t.data[i]);
  return out;
}

/// One factor cut over the only axis of a mesh; exchanges are dist operators.
class OneFactorContext : public LocalContext {
public:
  OneFactorContext(OpBuilder &b, Location loc, unsigned cut, int64_t block)
      : b(b), loc(loc), cut(cut), block(block) {}
  bool isSharded(unsigned factor) override { return factor == cut; }
  Value offset(unsigned factor) override {
    EXPECT_EQ(factor, cut);
    return dist::OffsetOp::create(b, loc, RankedTensorType::get({}, b.getI32Type()), "mesh",
                                  b.getStrArrayAttr({"a"}), block);
  }
  Value allReduce(Value value, unsigned factor, ReductionKind kind) override {
    EXPECT_EQ(factor, cut);
    auto how = kind == ReductionKind::Sum ? dist::Reduction::Sum : dist::Reduction::Max;
    return dist::AllReduceOp::create(b, loc, value.getType(), value, "mesh",
                                     b.getStrArrayAttr({"a"}), how);
  }

private:
  OpBuilder &b;
  Location loc;
  unsigned cut;
  int64_t block;
};

SmallVector<Type> localTypes(TypeRange types, ArrayRef<SmallVector<int>> dims, int factor,
                             int64_t block) {
  SmallVector<Type> out;
  for (auto [type, factors] : llvm::zip_equal(types, dims)) {
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape(tensor.getShape());
    if (int d = findFactor(factors, factor); d >= 0)
      shape[d] = block;
    out.push_back(RankedTensorType::get(shape, tensor.getElementType(), tensor.getEncoding()));
  }
  return out;
}

class ShardingRuleTest : public testing::TestWithParam<OpCase> {
protected:
  void SetUp() override {
    program = buildProgram(*context, GetParam());
    ASSERT_TRUE(program.op);
    rule = cast<ShardingRuleOpInterface>(program.op).getShardingRule();
    operands = randomOperands(GetParam(), 21);
    whole = run(program.function, operands);
  }

  /// What padding of `operand` along `factor` holds.
  double padding(int factor, unsigned operand) const {
    bool integers = !isa<FloatType>(getElementTypeOrSelf(program.op->getOperand(operand)));
    const Factor &f = rule.factors[factor];
    return f.neutral && rule.neutralOperand(factor) == static_cast<int>(operand) ? *f.neutral
           : integers                                                            ? 0.0
                                                                                 : kGarbage;
  }

  /// Runs the local form on `parts` ranks; by result, then by rank.
  std::vector<RankTensors> runBlocks(int factor, int64_t parts, int64_t block) {
    OpBuilder b = OpBuilder::atBlockEnd(program.module->getBody());
    Location loc = program.op->getLoc();
    auto mesh = dist::MeshOp::create(b, loc, "mesh", b.getStrArrayAttr({"a"}), {parts});
    func::FuncOp function =
        openFunction(*program.module, "local",
                     localTypes(program.op->getOperandTypes(), rule.operands, factor, block));
    OpBuilder inside = OpBuilder::atBlockEnd(&function.getBody().back());
    OneFactorContext local(inside, loc, factor, block);
    auto results =
        cast<ShardingRuleOpInterface>(program.op)
            .buildLocal(inside, function.getArguments(),
                        localTypes(program.op->getResultTypes(), rule.results, factor, block),
                        local);
    closeFunction(function, results);
    std::vector<RankTensors> arguments;
    for (auto [i, tensor] : llvm::enumerate(operands)) {
      int dim = findFactor(rule.operands[i], factor);
      RankTensors blocks;
      for (int64_t rank = 0; rank < parts; ++rank)
        blocks.push_back(dim < 0 ? tensor : cut(tensor, dim, block, rank, padding(factor, i)));
      arguments.push_back(std::move(blocks));
    }
    StateStore state;
    InterpreterOptions options;
    options.ranks = static_cast<unsigned>(parts);
    auto out = interpret(function, arguments, state, options);
    function.erase();
    mesh.erase();
    return succeeded(out) ? std::move(*out) : std::vector<RankTensors>();
  }

  void checkFactor(int factor, int64_t parts) {
    const Factor &f = rule.factors[factor];
    std::string what = "factor " + f.name + " in " + std::to_string(parts) + " blocks, result ";
    auto blocks = runBlocks(factor, parts, (f.size + parts - 1) / parts);
    ASSERT_EQ(blocks.size(), whole.size()) << what;
    for (auto [r, value] : llvm::enumerate(blocks)) {
      std::string which = what + std::to_string(r);
      if (int dim = findFactor(rule.results[r], factor); dim >= 0) {
        expectClose(join(value, dim, whole[r].shape), whole[r], 1e-12, which);
      } else if (f.reduction) {
        expectClose(combine(value, *f.reduction), whole[r], 1e-12, which);
      } else {
        for (const HostTensor &t : value)
          expectClose(t, whole[r], 1e-12, which + ", completed by the operator");
      }
    }
  }

  std::unique_ptr<MLIRContext> context = makeContext();
  Program program;
  ShardingRule rule;
  std::vector<HostTensor> operands, whole;
};
} // namespace

TEST_P(ShardingRuleTest, CoversEveryDimension) {
  auto check = [&](TypeRange types, ArrayRef<SmallVector<int>> dims) {
    ASSERT_EQ(types.size(), dims.size());
    for (auto [type, factors] : llvm::zip(types, dims)) {
      auto shape = cast<RankedTensorType>(type).getShape();
      ASSERT_EQ(shape.size(), factors.size());
      for (auto [size, factor] : llvm::zip(shape, factors)) {
        ASSERT_GE(factor, 0);
        ASSERT_LT(factor, static_cast<int>(rule.factors.size()));
        EXPECT_EQ(size, rule.factors[factor].size);
      }
    }
  };
  check(program.op->getOperandTypes(), rule.operands);
  check(program.op->getResultTypes(), rule.results);
}

TEST_P(ShardingRuleTest, BlocksMakeTheWhole) {
  for (int factor = 0; factor < static_cast<int>(rule.factors.size()); ++factor)
    if (rule.factors[factor].shardable)
      for (int64_t parts : {2, 3})
        checkFactor(factor, parts);
}

TEST_P(ShardingRuleTest, LinearGroupsAreLinear) {
  for (const auto &group : rule.linear) {
    std::vector<HostTensor> first = operands, second = operands;
    for (int i : group) {
      HostTensor part = randomTensor(operands[i].shape, 90 + i);
      first[i] = part;
      for (int64_t k = 0; k < part.size(); ++k)
        second[i].data[k] -= part.data[k];
    }
    auto a = run(program.function, first), b = run(program.function, second);
    ASSERT_EQ(a.size(), whole.size());
    ASSERT_EQ(b.size(), whole.size());
    for (size_t r = 0; r < whole.size(); ++r)
      expectClose(combine({a[r], b[r]}, ReductionKind::Sum), whole[r], 1e-12,
                  "linear group of operand " + std::to_string(group[0]));
  }
}

/// `t`, of dimensions `type`, with zeros at some indices of the dimensions `names`.
static HostTensor thinned(const HostTensor &t, Type type, ArrayRef<StringAttr> names) {
  HostTensor out = t;
  size_t position = 0;
  forEachIndex(t.shape, [&](ArrayRef<int64_t> i) {
    int64_t sum = 0;
    for (auto [n, name] : llvm::enumerate(names))
      sum += (2 * n + 3) * i[nn::findDim(type, name)];
    out.data[position++] *= sum % 3 != 1;
  });
  return out;
}

TEST_P(ShardingRuleTest, GroupsOfZerosGiveZeros) {
  for (const auto &group : rule.zeros) {
    SmallVector<StringAttr> names;
    for (StringAttr name : nn::dimNames(program.op->getResult(0)))
      if (llvm::all_of(group, [&](int i) {
            return nn::findDim(program.op->getOperand(i).getType(), name) >= 0;
          }))
        names.push_back(name);
    std::vector<HostTensor> some = operands;
    for (int i : group)
      some[i] = thinned(operands[i], program.op->getOperand(i).getType(), names);
    auto got = run(program.function, some);
    ASSERT_EQ(got.size(), whole.size());
    if (!names.empty())
      for (size_t r = 0; r < whole.size(); ++r)
        expectClose(got[r], thinned(whole[r], program.op->getResult(r).getType(), names), 1e-12,
                    "zeros of operand " + std::to_string(group[0]));
  }
}

INSTANTIATE_TEST_SUITE_P(NN, ShardingRuleTest, testing::ValuesIn(allCases()),
                         [](const auto &info) { return caseName(info.param, info.index); });

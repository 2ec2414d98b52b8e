//===- GradientTest.cpp - Gradients against finite differences -------------===//

#include "OpCase.h"

#include <gtest/gtest.h>
#include <set>

using namespace mlir;
using namespace cleave;
using namespace cleave::test;

namespace {
/// The cases of operators that have a gradient, each with those of its results
/// that receive one (statistics never do: only what training uses is derived).
struct GradientCase {
  OpCase op;
  std::vector<unsigned> results;
};

void PrintTo(const GradientCase &c, std::ostream *os) { PrintTo(c.op, os); }

bool isFloat(Value v) { return isa<FloatType>(getElementTypeOrSelf(v)); }

std::vector<GradientCase> gradientCases() {
  auto context = makeContext();
  std::vector<GradientCase> out;
  for (const OpCase &c : allCases()) {
    Program p = buildProgram(*context, c);
    // Rounding has no slope: what stands for its gradient is tested with its meaning.
    if (!p.op || !isa<DifferentiableOpInterface>(p.op) || c.op == "nn.cast")
      continue;
    if (c.op != "nn.unstack" && c.op != "nn.split") {
      out.push_back({c, {0}});
      continue;
    }
    std::vector<unsigned> every;
    for (unsigned i = 0; i < c.results.size(); ++i)
      every.push_back(i);
    out.push_back({c, every});
    if (every.size() > 1)
      out.push_back({c, {1}});
  }
  return out;
}

/// `@gradient(operands…, gradients of c.results…)`: the gradients of the
/// operands that are asked for; `order` says which.
func::FuncOp buildGradientFunction(const GradientCase &c, Program &p, ArrayRef<bool> wanted,
                                   std::vector<unsigned> &order) {
  SmallVector<Type> types(p.op->getOperandTypes());
  for (unsigned r : c.results)
    types.push_back(p.op->getResult(r).getType());
  func::FuncOp function = openFunction(*p.module, "gradient", types);
  OpBuilder b = OpBuilder::atBlockEnd(&function.getBody().back());
  IRMapping map;
  unsigned n = p.op->getNumOperands();
  map.map(p.op->getOperands(), function.getArguments().take_front(n));
  Operation *forward = b.clone(*p.op, map);
  SmallVector<Value> upstream(forward->getNumResults());
  for (auto [i, r] : llvm::enumerate(c.results))
    upstream[r] = function.getArgument(n + i);
  auto gradients = cast<DifferentiableOpInterface>(forward).buildGradient(b, upstream, wanted);
  EXPECT_EQ(gradients.size(), n);
  SmallVector<Value> returned;
  for (auto [i, g] : llvm::enumerate(gradients))
    if (wanted[i] && g) {
      EXPECT_EQ(g.getType(), p.op->getOperand(i).getType()) << "gradient of operand " << i;
      returned.push_back(g);
      order.push_back(i);
    }
  closeFunction(function, returned);
  return function;
}

class GradientTest : public testing::TestWithParam<GradientCase> {
protected:
  /// Σ over the given results of ⟨result, upstream⟩.
  double objective(const std::vector<HostTensor> &operands) {
    std::vector<HostTensor> results = run(program.function, operands);
    double sum = 0;
    for (auto [i, r] : llvm::enumerate(GetParam().results))
      for (int64_t k = 0; k < upstream[i].size(); ++k)
        sum += results.at(r).data[k] * upstream[i].data[k];
    return sum;
  }

  std::unique_ptr<MLIRContext> context = makeContext();
  Program program;
  std::vector<HostTensor> upstream;
};
} // namespace

TEST_P(GradientTest, AgreesWithCentralDifferences) {
  const GradientCase &c = GetParam();
  program = buildProgram(*context, c.op);
  ASSERT_TRUE(program.op);
  std::vector<HostTensor> operands = randomOperands(c.op, 7);
  std::vector<HostTensor> arguments = operands;
  for (unsigned r : c.results) {
    auto type = cast<RankedTensorType>(program.op->getResult(r).getType());
    upstream.push_back(randomTensor(type.getShape(), 400 + r));
    arguments.push_back(upstream.back());
  }
  SmallVector<bool> wanted;
  for (Value v : program.op->getOperands())
    wanted.push_back(isFloat(v));
  std::vector<unsigned> order;
  func::FuncOp gradient = buildGradientFunction(c, program, wanted, order);
  ASSERT_FALSE(testing::Test::HasFailure());
  EXPECT_EQ(order.size(), static_cast<size_t>(llvm::count(wanted, true)));
  std::vector<HostTensor> got = run(gradient, arguments);
  ASSERT_EQ(got.size(), order.size());
  for (auto [position, operand] : llvm::enumerate(order)) {
    HostTensor want(operands[operand].shape);
    for (int64_t i = 0; i < want.size(); ++i) {
      constexpr double step = 1e-5;
      std::vector<HostTensor> moved = operands;
      moved[operand].data[i] += step;
      double up = objective(moved);
      moved[operand].data[i] -= 2 * step;
      want.data[i] = (up - objective(moved)) / (2 * step);
    }
    expectClose(got[position], want, 1e-8, "gradient of operand " + std::to_string(operand));
  }
}

// Asking for one gradient alone must not change it, nor may the others appear
// in its place.
TEST_P(GradientTest, OneAtATimeIsTheSame) {
  const GradientCase &c = GetParam();
  program = buildProgram(*context, c.op);
  ASSERT_TRUE(program.op);
  std::vector<HostTensor> arguments = randomOperands(c.op, 8);
  for (unsigned r : c.results)
    arguments.push_back(randomTensor(
        cast<RankedTensorType>(program.op->getResult(r).getType()).getShape(), 500 + r));
  SmallVector<bool> all;
  for (Value v : program.op->getOperands())
    all.push_back(isFloat(v));
  std::vector<unsigned> order;
  std::vector<HostTensor> want = run(buildGradientFunction(c, program, all, order), arguments);
  for (auto [position, operand] : llvm::enumerate(order)) {
    Program again = buildProgram(*context, c.op);
    SmallVector<bool> one(all.size(), false);
    one[operand] = true;
    std::vector<unsigned> alone;
    std::vector<HostTensor> got = run(buildGradientFunction(c, again, one, alone), arguments);
    ASSERT_EQ(alone, std::vector<unsigned>{operand});
    expectClose(got[0], want[position], 0, "gradient of operand " + std::to_string(operand));
  }
}

INSTANTIATE_TEST_SUITE_P(NN, GradientTest, testing::ValuesIn(gradientCases()),
                         [](const auto &info) { return caseName(info.param.op, info.index); });

TEST(AllCases, NameEveryOperator) {
  auto context = makeContext();
  std::set<std::string> named;
  for (const OpCase &c : allCases())
    named.insert(c.op);
  for (RegisteredOperationName op : context->getRegisteredOperationsByDialect("nn"))
    if (op.hasInterface<InterpretableOpInterface>())
      EXPECT_TRUE(named.count(op.getStringRef().str())) << op.getStringRef().str();
}

TEST(AllCases, Verify) {
  auto context = makeContext();
  for (const OpCase &c : allCases())
    EXPECT_TRUE(buildProgram(*context, c).op) << c.op;
}

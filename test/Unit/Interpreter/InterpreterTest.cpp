//===- InterpreterTest.cpp - Ranks, state and the observer -----------------===//

#include "cleave/Interpreter/Interpreter.h"

#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using namespace cleave;

namespace {
constexpr const char *kProgram = R"(
  #m = #nn.dims<model>
  dist.mesh @mesh ["a"] = [2]
  nn.parameter @w : tensor<2xf32, #m> {file_shape = array<i64: 2>, init_mean = 0.0 : f64, init_std = 0.0 : f64}
  func.func private @layer(%x: tensor<2xf32, #m>) -> tensor<2xf32, #m> {
    %y = nn.relu %x {nn.path = "layer.act"} : (tensor<2xf32, #m>) -> tensor<2xf32, #m>
    return %y : tensor<2xf32, #m>
  }
  func.func @main(%x: tensor<2xf32, #m>) -> (tensor<2xf32, #m>, tensor<2xf32, #m>) {
    %w = nn.load @w value : tensor<2xf32, #m>
    %y = call @layer(%x) : (tensor<2xf32, #m>) -> tensor<2xf32, #m>
    %z = nn.mul %y, %w {nn.path = "scaled"} : (tensor<2xf32, #m>, tensor<2xf32, #m>) -> tensor<2xf32, #m>
    %sum = dist.all_reduce %z sum on @mesh ["a"] : tensor<2xf32, #m>
    nn.accumulate %z, @w gradient : tensor<2xf32, #m>
    return %sum, %z : tensor<2xf32, #m>, tensor<2xf32, #m>
  }
)";

HostTensor vec(double a, double b) {
  HostTensor t({2});
  t.data = {a, b};
  return t;
}

class InterpreterTest : public testing::Test {
protected:
  void SetUp() override {
    context.loadDialect<func::FuncDialect, nn::NNDialect, dist::DistDialect>();
    context.getDiagEngine().registerHandler([this](Diagnostic &d) {
      if (d.getSeverity() == DiagnosticSeverity::Error)
        error = d.str();
      return success();
    });
    module = parseSourceString<ModuleOp>(kProgram, &context);
    ASSERT_TRUE(module) << error;
    entry = module->lookupSymbol<FunctionOpInterface>("main");
    options.ranks = 2;
    state.set("w", "value", {vec(10, 20), vec(1, 2)});
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  FunctionOpInterface entry;
  StateStore state;
  InterpreterOptions options;
  std::string error;
};
} // namespace

TEST_F(InterpreterTest, RanksHaveTheirOwnValuesAndMeetInCollectives) {
  auto results = interpret(entry, {{vec(1, -1), vec(3, 4)}}, state, options);
  ASSERT_TRUE(succeeded(results)) << error;
  ASSERT_EQ(results->size(), 2u);
  EXPECT_EQ((*results)[1][0].data, (std::vector<double>{10, 0}));
  EXPECT_EQ((*results)[1][1].data, (std::vector<double>{3, 8}));
  for (int rank : {0, 1})
    EXPECT_EQ((*results)[0][rank].data, (std::vector<double>{13, 8})) << "rank " << rank;
}

TEST_F(InterpreterTest, StateOutlivesARunAndAddsUp) {
  for (int run = 1; run <= 3; ++run) {
    ASSERT_TRUE(succeeded(interpret(entry, {{vec(1, 1), vec(1, 1)}}, state, options))) << error;
    const RankTensors *gradient = state.find("w", "gradient");
    ASSERT_TRUE(gradient);
    EXPECT_EQ((*gradient)[0].data, (std::vector<double>{10.0 * run, 20.0 * run}));
    EXPECT_EQ((*gradient)[1].data, (std::vector<double>{1.0 * run, 2.0 * run}));
  }
  state.clearSlot("gradient");
  EXPECT_FALSE(state.find("w", "gradient"));
  EXPECT_TRUE(state.find("w", "value"));
}

TEST_F(InterpreterTest, ObserverSeesCalledFunctionsToo) {
  std::map<std::string, std::vector<double>> seen;
  options.observer = [&](Operation *op, ArrayRef<const RankTensors *> results,
                         ArrayRef<Iteration>) {
    if (auto path = op->getAttrOfType<StringAttr>("nn.path"))
      seen[path.str()] = (*results[0])[1].data;
  };
  ASSERT_TRUE(succeeded(interpret(entry, {{vec(1, 1), vec(-3, 4)}}, state, options))) << error;
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen["layer.act"], (std::vector<double>{0, 4}));
  EXPECT_EQ(seen["scaled"], (std::vector<double>{0, 8}));
}

TEST_F(InterpreterTest, NaNIsRefusedUnlessAllowed) {
  state.set("w", "value", {vec(1, NAN), vec(1, 1)});
  EXPECT_TRUE(failed(interpret(entry, {{vec(1, 1), vec(1, 1)}}, state, options)));
  EXPECT_NE(error.find("'nn.load' is not a number at element 1 on rank 0"), std::string::npos)
      << error;
  options.refuseNaN = false;
  EXPECT_TRUE(succeeded(interpret(entry, {{vec(1, 1), vec(1, 1)}}, state, options)));
}

TEST_F(InterpreterTest, WrongArgumentsAreDiagnosed) {
  auto expectError = [&](ArrayRef<RankTensors> arguments, const std::string &message) {
    error.clear();
    EXPECT_TRUE(failed(interpret(entry, arguments, state, options)));
    EXPECT_NE(error.find(message), std::string::npos) << error;
  };
  expectError({}, "is called with 0 arguments; it takes 1");
  expectError({{vec(1, 1)}}, "argument 0 is given for 1 ranks, not for 2");
  expectError({{vec(1, 1), HostTensor({3})}},
              "has the shape [3] on rank 1 where its type says [2]");
  state = StateStore();
  expectError({{vec(1, 1), vec(1, 1)}}, "reads 'value' of @w, which nothing has stored");
  state.set("w", "value", {vec(1, 1)});
  expectError({{vec(1, 1), vec(1, 1)}}, "is stored for 1 ranks, not for 2");
}

TEST_F(InterpreterTest, ConstantsKeepTheirValues) {
  auto type = RankedTensorType::get({2}, IntegerType::get(&context, 32));
  auto integers = toHostTensor(DenseElementsAttr::get(type, ArrayRef<int32_t>{-5, 7}));
  ASSERT_TRUE(succeeded(integers));
  EXPECT_EQ(integers->data, (std::vector<double>{-5, 7}));
  DenseElementsAttr attribute = toAttribute(&context, vec(0.1, -2));
  auto back = toHostTensor(attribute);
  ASSERT_TRUE(succeeded(back));
  EXPECT_EQ(back->data, (std::vector<double>{0.1, -2}));
}

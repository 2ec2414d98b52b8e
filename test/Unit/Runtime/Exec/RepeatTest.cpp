// Repeats as the executor runs them: each iteration on its own memory, in order,
// timed and named one by one.
#include "runtime/Exec/Executor.h"

#include <gtest/gtest.h>

#include <ostream>
#include <stdexcept>

using namespace cleave::rt;

namespace {

Program oneRank(std::vector<Command> commands) {
  Program program;
  program.segments = {{"io", 64}, {"arena", 4096}};
  program.exchange.tokens = program.exchange.targets = {0, 0, 4};
  program.exchange.loss = {0, 8, 4};
  program.groups = {Group()};
  program.entry(EntryKind::Update) = std::move(commands);
  return program;
}

float *floats(void *pointer) { return static_cast<float *>(pointer); }

/// slice, count: adds 1 to count, and count to every element of slice.
void addTurn(void *const *args, int64_t begin, int64_t end) {
  *floats(args[1]) += 1;
  for (int64_t i = begin; i < end; ++i)
    floats(args[0])[i] += *floats(args[1]);
}

/// count: fails in its third turn.
void failThird(void *const *args, int64_t, int64_t) {
  if ((*floats(args[0]) += 1) == 3)
    throw std::runtime_error("third turn");
}

constexpr KernelSymbol kernels[] = {{"add_turn", addTurn}, {"fail_third", failThird}};

/// The slices lie `stride` bytes apart from `first` on; what they hold is added up
/// in one float each by a product with ones, then copied by a reduction of one rank.
Command layers(int64_t first, int64_t stride, int64_t layerStep) {
  RepeatCommand repeat{3, layerStep < 0 ? 2 : 0, layerStep, {}};
  const Region slice{1, first, 16, stride};
  const Region sum{1, first + 1024, 4, stride}, copied{1, first + 2048, 4, stride};
  MatmulCommand product;
  product.a = {slice, 4, 1};
  product.b = {{1, 3968, 16}, 1, 1};
  product.c = {sum, 1, 1};
  product.k = 4;
  repeat.body = {{KernelCommand{"add_turn", {slice, {1, 3840, 4}}, 4, 4}, "layers.*/add", 32, 4},
                 {product, "layers.*/sum", 36, 8},
                 {AllReduceCommand{0, ReductionKind::Sum, DataType::F32, sum, copied},
                  "layers.*/reduce", 8, 0}};
  return {repeat, "layers", 0, 0};
}

struct Case {
  const char *name;
  int64_t first;
  int64_t stride;
  int64_t layerStep;
};

void PrintTo(const Case &value, std::ostream *out) { *out << value.name; }

class RepeatOrder : public testing::TestWithParam<Case> {};

TEST_P(RepeatOrder, RunsEachIterationOnItsOwnSlice) {
  const auto [name, first, stride, layerStep] = GetParam();
  Program program =
      oneRank({layers(first, stride, layerStep), {ZeroCommand{{1, 3840, 4}}, "end", 4, 0}});
  program.constants = {{"ones", {1, 3968, 16}, DataType::F32, Constant::Numbers{{1, 1, 1, 1}}}};
  ASSERT_TRUE(validate(program).ok()) << validate(program).error().message;
  ThreadPool pool(2);
  auto executor = Executor::create(program, 0, kernels, pool, {nullptr}, {.profile = true});
  ASSERT_TRUE(executor.ok()) << renderText(executor.error());
  for (float runs : {1.0f, 2.0f}) {
    ASSERT_TRUE((*executor)->run(EntryKind::Update).ok());
    const RankMemory &memory = (*executor)->memory();
    for (int64_t turn = 0; turn < 3; ++turn) {
      const float value = runs * static_cast<float>(turn + 1);
      const int64_t offset = first + turn * stride;
      for (int64_t i = 0; i < 4; ++i)
        EXPECT_EQ(memory.floats({1, offset, 16})[i], value) << turn;
      EXPECT_EQ(*memory.floats({1, offset + 1024, 4}), 4 * value) << turn;
      EXPECT_EQ(*memory.floats({1, offset + 2048, 4}), 4 * value) << turn;
    }
  }
  EXPECT_EQ(*(*executor)->memory().floats({1, 3840, 4}), 0);

  // Times and names are those of single commands.
  const auto update = static_cast<size_t>(EntryKind::Update);
  const std::vector<Command> &commands = (*executor)->commands()[update];
  const std::vector<CommandTime> &times = (*executor)->profile()[update];
  ASSERT_EQ(commands.size(), 10u);
  ASSERT_EQ(times.size(), 10u);
  for (const CommandTime &time : times)
    EXPECT_EQ(time.calls, 2);
  EXPECT_EQ(commands[1].label, layerStep < 0 ? "layers.2/sum" : "layers.0/sum");
  EXPECT_EQ(commands[8].label, layerStep < 0 ? "layers.0/reduce" : "layers.2/reduce");
  EXPECT_EQ(commands[9].label, "end");
  int lines = 0;
  for (const ProfileLine &line :
       summarise(program, (*executor)->commands(), (*executor)->profile()))
    if (line.name == "add_turn" || line.name == "matmul") {
      EXPECT_EQ(line.calls, 6);
      EXPECT_EQ(line.bytes, line.name == "matmul" ? 216 : 192);
      EXPECT_EQ(line.flops, line.name == "matmul" ? 48 : 24);
      ++lines;
    }
  EXPECT_EQ(lines, 2);
}

INSTANTIATE_TEST_SUITE_P(Directions, RepeatOrder,
                         testing::Values(Case{"forward", 0, 64, 1}, Case{"packed", 0, 16, 1},
                                         Case{"backward", 128, -64, -1}),
                         [](const auto &info) { return info.param.name; });

TEST(Repeat, AFailureNamesCommandAndLayer) {
  RepeatCommand repeat{4, 10, 10, {}};
  repeat.body = {{ZeroCommand{{1, 64, 4, 4}}, "layers.*/zero", 0, 0},
                 {KernelCommand{"fail_third", {{1, 0, 4}}, 1, 1}, "layers.*/mlp", 0, 0}};
  const Program program = oneRank({{repeat, "", 0, 0}});
  ThreadPool pool(1);
  auto executor = Executor::create(program, 0, kernels, pool, {nullptr});
  ASSERT_TRUE(executor.ok()) << renderText(executor.error());
  const Status status = (*executor)->run(EntryKind::Update);
  ASSERT_FALSE(status.ok());
  const std::string text = renderText(status.error());
  EXPECT_NE(text.find("update command 5: kernel of layers.30/mlp"), std::string::npos) << text;
}

TEST(Repeat, TheExecutorKeepsWhatItRuns) {
  RepeatCommand repeat{2, 0, 1, {}};
  repeat.body = {
      {AllReduceCommand{0, ReductionKind::Sum, DataType::F32, {1, 0, 4, 4}, {1, 64, 4, 4}}, "", 0,
       0}};
  Program program = oneRank({{repeat, "", 0, 0}});
  ThreadPool pool(1);
  auto executor = Executor::create(program, 0, kernels, pool, {nullptr});
  ASSERT_TRUE(executor.ok());
  program.entries = {};
  for (int i = 0; i < 2; ++i)
    (*executor)->memory().floats({1, 0, 8})[i] = static_cast<float>(i + 5);
  ASSERT_TRUE((*executor)->run(EntryKind::Update).ok());
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ((*executor)->memory().floats({1, 64, 8})[i], static_cast<float>(i + 5));
}

} // namespace

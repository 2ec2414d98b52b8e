// Parameters reach every rank's block from files and from numbers, padding stays
// zero, and files that do not fit are refused by kind.
#include "runtime/Train/Weights.h"
#include "runtime/Train/StateBlocks.h"

#include "../TemporaryFolder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

using namespace cleave::rt;

namespace {

/// One parameter [7, 4], seen as [7, 2, 2], cut by tensor=2 along rows and by
/// data=2 along the last dimension; one whole scalar-like vector.
Program twoParameters() {
  Program program;
  program.mesh.axes = {{"data", 2}, {"tensor", 2}};
  program.segments = {{"weights", 4096}};
  StateEntry matrix;
  matrix.name = "model.embed.weight";
  matrix.aliases = {"lm_head.weight"};
  matrix.fileShape = {7, 4};
  matrix.shape = {7, 2, 2};
  matrix.sharding.axes = {{1}, {}, {0}};
  matrix.initial = {0, 0.02};
  matrix.slot(Slot::Value) = Region{0, 0, 4 * 4 * 2 * 1};
  StateEntry vector;
  vector.name = "model.norm.weight";
  vector.fileShape = vector.shape = {5};
  vector.sharding.axes = {{}};
  vector.initial = {1, 0};
  vector.slot(Slot::Value) = Region{0, 1024, 20};
  program.state = {matrix, vector};
  return program;
}

using Tensors = std::map<std::string, std::pair<Shape, std::vector<float>>>;

std::string writeTensors(const TemporaryFolder &folder, const Tensors &tensors) {
  const std::string path = folder.file("model.safetensors");
  std::vector<TensorPlan> plans;
  for (const auto &[name, tensor] : tensors)
    plans.push_back({name, FloatType::F32, tensor.first});
  auto writer = SafeTensorsWriter::create(path, plans, {}, "test.write");
  EXPECT_TRUE(writer.ok());
  for (const TensorPlan &plan : std::vector<TensorPlan>(writer->tensors()))
    EXPECT_TRUE(writer->append(tensors.at(plan.name).second).ok());
  EXPECT_TRUE(writer->commit().ok());
  return path;
}

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = 0.5f + static_cast<float>(i);
  return values;
}

/// Every rank's matrix block holds `global` where it is real and zero elsewhere.
void expectBlocks(const Program &program, int64_t rank, const float *value,
                  const std::vector<float> &global) {
  const auto at = program.mesh.coordinates(rank);
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 2; ++j) {
      const int64_t row = at[1] * 4 + i;
      const float expected = row < 7 ? global[row * 4 + j * 2 + at[0]] : 0;
      EXPECT_EQ(value[i * 2 + j], expected) << "rank " << rank << " at " << i << "," << j;
    }
}

TEST(Weights, ReachEveryRanksBlock) {
  TemporaryFolder folder;
  const Program program = twoParameters();
  const std::string path = writeTensors(folder, {{"embed.weight", {{7, 4}, counting(28)}},
                                                 {"model.norm.weight", {{5}, counting(5)}},
                                                 {"h.0.attn.bias", {{2}, counting(2)}}});
  auto weights = InitialWeights::open(path, program);
  ASSERT_TRUE(weights.ok()) << weights.error().message;
  EXPECT_EQ(weights->unused(), std::vector<std::string>{"h.0.attn.bias"});
  for (unsigned workers : {1u, 2u}) {
    ThreadPool pool(workers);
    for (int64_t rank = 0; rank < 4; ++rank) {
      auto memory = RankMemory::allocate(program);
      ASSERT_TRUE(memory.ok());
      ASSERT_TRUE(weights->load(program, rank, *memory, pool).ok());
      expectBlocks(program, rank, memory->floats({0, 0, 32}), counting(28));
      EXPECT_EQ(memory->floats({0, 1024, 20})[4], 4.5f);
    }
  }
}

TEST(Weights, GeneratedNumbersDoNotDependOnTheLayout) {
  Program cut = twoParameters(), whole = twoParameters();
  whole.mesh.axes = {{"data", 1}, {"tensor", 1}};
  whole.state[0].slot(Slot::Value) = Region{0, 0, 112};
  ThreadPool pool(2);
  auto reference = RankMemory::allocate(whole);
  ASSERT_TRUE(generateWeights(whole, 0, 42, *reference, pool).ok());
  const float *all = reference->floats({0, 0, 112});
  const std::vector<float> global(all, all + 28);
  for (int64_t rank = 0; rank < 4; ++rank) {
    auto memory = RankMemory::allocate(cut);
    ASSERT_TRUE(generateWeights(cut, rank, 42, *memory, pool).ok());
    expectBlocks(cut, rank, memory->floats({0, 0, 32}), global);
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(memory->floats({0, 1024, 20})[i], 1.0f);
  }
}

/// Three experts [4, 2] as one parameter, cut by tensor=2 along the experts and by
/// data=2 along rows.
Program experts() {
  Program program = twoParameters();
  StateEntry stack;
  stack.name = "experts.{}.weight";
  stack.fileShape = {4, 2};
  stack.shape = {3, 4, 2};
  stack.sharding.axes = {{1}, {0}, {}};
  stack.initial = {0, 0.02};
  stack.slot(Slot::Value) = Region{0, 0, 2 * 2 * 2 * 4};
  program.state = {stack};
  return program;
}

/// `whole`: the elements of all experts, one behind the other.
void expectExperts(const Program &program, int64_t rank, const float *value,
                   const std::vector<float> &whole) {
  const auto at = program.mesh.coordinates(rank);
  for (int64_t e = 0; e < 2; ++e)
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t expert = at[1] * 2 + e, row = at[0] * 2 + i / 2;
      EXPECT_EQ(value[e * 4 + i], expert < 3 ? whole[expert * 8 + row * 2 + i % 2] : 0)
          << "rank " << rank << ", expert " << expert << ", row " << row;
    }
}

TEST(Weights, ExpertsAreATensorEachInFiles) {
  TemporaryFolder folder;
  const Program program = experts();
  Tensors tensors;
  const std::vector<float> whole = counting(24);
  for (int e = 0; e < 3; ++e)
    tensors["experts." + std::to_string(e) + ".weight"] = {
        {4, 2}, {whole.begin() + e * 8, whole.begin() + e * 8 + 8}};
  auto weights = InitialWeights::open(writeTensors(folder, tensors), program);
  ASSERT_TRUE(weights.ok()) << weights.error().message;
  EXPECT_TRUE(weights->unused().empty());
  ThreadPool pool(2);
  for (int64_t rank = 0; rank < 4; ++rank) {
    auto memory = RankMemory::allocate(program);
    ASSERT_TRUE(weights->load(program, rank, *memory, pool).ok());
    expectExperts(program, rank, memory->floats({0, 0, 32}), whole);
  }
  tensors.erase("experts.1.weight");
  weights = InitialWeights::open(writeTensors(folder, tensors), program);
  ASSERT_FALSE(weights.ok());
  EXPECT_EQ(weights.error().kind, "import.missing_tensor");
  EXPECT_NE(weights.error().message.find("experts.1.weight"), std::string::npos);
}

TEST(Weights, AnExpertsNumbersAreThoseOfItsOwnName) {
  Program alone = experts();
  alone.mesh.axes = {{"data", 1}, {"tensor", 1}};
  alone.state.resize(1);
  alone.state[0].shape = alone.state[0].fileShape = {4, 2};
  alone.state[0].sharding.axes = {{}, {}};
  ThreadPool pool(2);
  std::vector<float> whole;
  for (int e = 0; e < 3; ++e) {
    alone.state[0].name = "experts." + std::to_string(e) + ".weight";
    auto memory = RankMemory::allocate(alone);
    ASSERT_TRUE(generateWeights(alone, 0, 42, *memory, pool).ok());
    const float *values = memory->floats({0, 0, 32});
    whole.insert(whole.end(), values, values + 8);
  }
  const Program program = experts();
  for (int64_t rank = 0; rank < 4; ++rank) {
    auto memory = RankMemory::allocate(program);
    ASSERT_TRUE(generateWeights(program, rank, 42, *memory, pool).ok());
    expectExperts(program, rank, memory->floats({0, 0, 32}), whole);
  }
}

void expectRefused(const Tensors &tensors, const std::string &kind, const std::string &mention) {
  TemporaryFolder folder;
  auto weights = InitialWeights::open(writeTensors(folder, tensors), twoParameters());
  ASSERT_FALSE(weights.ok());
  EXPECT_EQ(weights.error().kind, kind);
  EXPECT_NE(renderText(weights.error()).find(mention), std::string::npos)
      << renderText(weights.error());
}

TEST(Weights, RefusesFilesThatDoNotFit) {
  const Tensors good = {{"model.embed.weight", {{7, 4}, counting(28)}},
                        {"model.norm.weight", {{5}, counting(5)}}};
  Tensors missing = good;
  missing.erase("model.norm.weight");
  missing["model.norm.weigth"] = {{5}, counting(5)};
  expectRefused(missing, "import.missing_tensor", "model.norm.weigth");

  Tensors shape = good;
  shape["model.embed.weight"].first = {4, 7};
  expectRefused(shape, "import.shape_mismatch", "[7, 4]");

  Tensors tied = good;
  tied["lm_head.weight"] = tied["model.embed.weight"];
  tied["lm_head.weight"].second[9] += 1;
  expectRefused(tied, "import.tied_conflict", "element 9");
}

TEST(Weights, RefusesWhatIsNoNumber) {
  const Program program = twoParameters();
  for (float bad : {NAN, INFINITY}) {
    TemporaryFolder folder;
    std::vector<float> matrix = counting(28);
    matrix[27] = bad;
    const std::string path = writeTensors(folder, {{"model.embed.weight", {{7, 4}, matrix}},
                                                   {"model.norm.weight", {{5}, counting(5)}}});
    const auto weights = InitialWeights::open(path, program);
    ASSERT_TRUE(weights.ok());
    ThreadPool pool(1);
    int refused = 0;
    for (int64_t rank = 0; rank < 4; ++rank) {
      const auto memory = RankMemory::allocate(program);
      const Status status = weights->load(program, rank, *memory, pool);
      if (status.ok())
        continue;
      ++refused;
      EXPECT_EQ(status.error().kind, "import.not_finite");
      EXPECT_NE(status.error().message.find("element 27 of tensor \"model.embed.weight\""),
                std::string::npos);
    }
    EXPECT_EQ(refused, 1); // the rank that holds it
  }
}

TEST(Weights, TakesATiedTensorUnderEitherNameOrEqualCopies) {
  const Program program = twoParameters();
  ThreadPool pool(1);
  for (int form = 0; form < 2; ++form) {
    TemporaryFolder folder;
    Tensors tensors = {{"lm_head.weight", {{7, 4}, counting(28)}},
                       {"model.norm.weight", {{5}, counting(5)}}};
    if (form == 1)
      tensors["model.embed.weight"] = tensors["lm_head.weight"];
    auto weights = InitialWeights::open(writeTensors(folder, tensors), program);
    ASSERT_TRUE(weights.ok()) << weights.error().message;
    EXPECT_TRUE(weights->unused().empty());
    auto memory = RankMemory::allocate(program);
    ASSERT_TRUE(weights->load(program, 3, *memory, pool).ok());
    expectBlocks(program, 3, memory->floats({0, 0, 32}), counting(28));
  }
}

TEST(StateBlocks, RunsCoverTheBoxAndJoinWhereTheyCan) {
  const Program program = twoParameters();
  const auto whole = runsOf(program, program.state[1], 0, 1 << 16);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].count, 5);
  EXPECT_EQ(runsOf(program, program.state[1], 0, 2).size(), 3u);
  int64_t total = 0;
  for (int64_t rank = 0; rank < 4; ++rank)
    for (const StateRun &run : runsOf(program, program.state[0], rank, 1 << 16))
      total += run.count;
  EXPECT_EQ(total, 28);
}

} // namespace

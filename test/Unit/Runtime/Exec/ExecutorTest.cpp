// Every command of a program run on several ranks against what it means for the
// whole tensors, and errors that name rank and command.
#include "runtime/Exec/Executor.h"
#include "runtime/Comm/Local/LocalWorld.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>

using namespace cleave::rt;

namespace {

/// Runs `entry` of `program` on threads as ranks; `before` and `after` see each
/// rank's executor.
template <typename Before, typename After>
Status runOnRanks(const Program &program, KernelTable kernels, EntryKind entry, unsigned threads,
                  Before before, After after) {
  const auto ranks = static_cast<int>(program.mesh.world());
  std::vector<std::vector<int>> groups;
  for (const Group &group : program.groups)
    for (int rank = 0; rank < ranks; ++rank) {
      const auto members = group.ranksOf(program.mesh, rank);
      groups.emplace_back(members.begin(), members.end());
    }
  auto world = LocalWorld::create({ranks, groups, {}});
  if (!world.ok())
    return world.status();
  return (*world)->run([&](World &self) -> Status {
    std::vector<Communicator *> communicators;
    for (const Group &group : program.groups) {
      const auto members = group.ranksOf(program.mesh, self.rank());
      CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * communicator,
                                 self.group({members.begin(), members.end()}));
      communicators.push_back(communicator);
    }
    ThreadPool pool(threads);
    CLEAVE_RT_ASSIGN_OR_RETURN(
        auto executor, Executor::create(program, self.rank(), kernels, pool, communicators));
    before(*executor);
    CLEAVE_RT_RETURN_IF_ERROR(executor->run(entry));
    after(*executor);
    return {};
  });
}

Program onMesh(std::vector<MeshAxis> axes) {
  Program program;
  program.mesh.axes = std::move(axes);
  program.segments = {{"io", 64}, {"arena", 1 << 16}};
  program.exchange.tokens = program.exchange.targets = {0, 0, 4};
  program.exchange.loss = {0, 8, 4};
  program.batch.globalBatch = 1;
  return program;
}

Region at(int64_t slot, int64_t floats) { return {1, slot * 4096, floats * 4}; }

/// Element of the whole tensor: distinct and exact in float.
float wholeValue(int64_t index) { return static_cast<float>(index * 7 % 1001); }

TEST(Executor, CollectivesMoveWholeTensorsAndBlocks) {
  Program p = onMesh({{"data", 2}, {"tensor", 3}});
  p.groups = {Group{{1}, {}}, Group{{0, 1}, {}}, Group{{1, 0}, {}}};
  const int64_t outer = 2, inner = 3;
  for (int64_t full : {3, 6, 7, 1}) {
    for (int32_t group : {0, 1, 2}) {
      const int64_t k = p.groups[group].size(p.mesh);
      const int64_t block = blockSize(full, k);
      const CutDimension cut{outer, full, inner};
      const Region whole = at(0, outer * full * inner), part = at(1, outer * block * inner),
                   gathered = at(2, outer * full * inner), scattered = at(3, part.bytes / 4),
                   reduced = at(4, whole.bytes / 4), largest = at(5, part.bytes / 4);
      p.entry(EntryKind::Update) = {
          {SliceCommand{group, DataType::F32, cut, whole, part}, "slice", 0, 0},
          {AllGatherCommand{group, DataType::F32, cut, part, gathered}, "gather", 0, 0},
          {ReduceScatterCommand{group, ReductionKind::Sum, DataType::F32, cut, whole, scattered},
           "scatter", 0, 0},
          {ReduceScatterCommand{group, ReductionKind::Max, DataType::F32, cut, whole, largest},
           "max", 0, 0},
          {AllReduceCommand{group, ReductionKind::Sum, DataType::F32, whole, reduced}, "reduce", 0,
           0}};
      ASSERT_TRUE(validate(p).ok()) << validate(p).error().message;
      const int64_t count = outer * full * inner;
      const Status status = runOnRanks(
          p, {}, EntryKind::Update, 2,
          [&](Executor &executor) {
            const RankMemory &memory = executor.memory();
            std::memset(memory.address({1, 0, 0}), 0xFF, 1 << 15); // NaNs
            for (int64_t i = 0; i < count; ++i)
              memory.floats(whole)[i] = wholeValue(i);
          },
          [&](Executor &executor) {
            const RankMemory &memory = executor.memory();
            const int64_t index = p.groups[group].indexOf(p.mesh, executor.rank());
            for (int64_t i = 0; i < count; ++i) {
              EXPECT_EQ(memory.floats(gathered)[i], wholeValue(i));
              EXPECT_EQ(memory.floats(reduced)[i], wholeValue(i) * static_cast<float>(k));
            }
            for (int64_t o = 0; o < outer; ++o)
              for (int64_t b = 0; b < block; ++b)
                for (int64_t i = 0; i < inner; ++i) {
                  const int64_t row = index * block + b;
                  const float expected = row < full ? wholeValue((o * full + row) * inner + i) : 0;
                  const int64_t local = (o * block + b) * inner + i;
                  EXPECT_EQ(memory.floats(part)[local], expected);
                  EXPECT_EQ(memory.floats(scattered)[local], expected * static_cast<float>(k));
                  EXPECT_EQ(memory.floats(largest)[local], expected);
                }
          });
      ASSERT_TRUE(status.ok()) << renderText(status.error());
    }
  }
}

TEST(Executor, AllToAllMovesTheCutThereAndBack) {
  Program p = onMesh({{"tensor", 3}});
  p.groups = {Group{{0}, {}}};
  const int64_t outer = 2, first = 7, middle = 2, second = 5, inner = 2;
  const int64_t bf = blockSize(first, 3), bs = blockSize(second, 3);
  const Region whole = at(0, outer * first * middle * second * inner);
  const Region byFirst = at(1, outer * bf * middle * second * inner);
  const Region bySecond = at(2, outer * first * middle * bs * inner);
  const Region back = at(3, byFirst.bytes / 4);
  p.entry(EntryKind::Update) = {
      {SliceCommand{0, DataType::F32, {outer, first, middle * second * inner}, whole, byFirst}, "",
       0, 0},
      {AllToAllCommand{0, DataType::F32, outer, first, middle, second, inner, false, byFirst,
                       bySecond},
       "", 0, 0},
      {AllToAllCommand{0, DataType::F32, outer, first, middle, second, inner, true, bySecond, back},
       "", 0, 0}};
  ASSERT_TRUE(validate(p).ok()) << validate(p).error().message;
  const Status status = runOnRanks(
      p, {}, EntryKind::Update, 1,
      [&](Executor &executor) {
        std::memset(executor.memory().address({1, 0, 0}), 0xFF, 1 << 15);
        for (int64_t i = 0; i < whole.bytes / 4; ++i)
          executor.memory().floats(whole)[i] = wholeValue(i);
      },
      [&](Executor &executor) {
        EXPECT_EQ(std::memcmp(executor.memory().floats(back), executor.memory().floats(byFirst),
                              back.bytes),
                  0);
        const float *got = executor.memory().floats(bySecond);
        for (int64_t row = 0; row < outer * first * middle; ++row)
          for (int64_t s = 0; s < bs; ++s)
            for (int64_t i = 0; i < inner; ++i) {
              const int64_t column = executor.rank() * bs + s;
              const float expected =
                  column < second ? wholeValue((row * second + column) * inner + i) : 0;
              EXPECT_EQ(got[(row * bs + s) * inner + i], expected);
            }
        EXPECT_GT(executor.memoryUse().staging, 0);
      });
  ASSERT_TRUE(status.ok()) << renderText(status.error());
}

/// out[i] = in[i] · begin-dependent piece, so that pieces are visible.
void markPieces(void *const *args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<float *>(args[0])[i] = static_cast<float>(begin * 1000 + end);
}

TEST(Executor, KernelsRunInPiecesOfTheGrain) {
  Program p = onMesh({});
  p.entry(EntryKind::Count) = {{KernelCommand{"mark", {at(0, 10)}, 10, 4}, "", 0, 0},
                               {ZeroCommand{{1, 4, 8}}, "", 0, 0},
                               {CopyCommand{at(0, 10), at(1, 10)}, "", 0, 0}};
  const KernelSymbol symbols[] = {{"mark", markPieces}};
  for (unsigned threads : {1u, 2u, 4u}) {
    const Status status = runOnRanks(
        p, symbols, EntryKind::Count, threads, [](Executor &) {},
        [&](Executor &executor) {
          const float expected[] = {4, 0, 0, 4, 4008, 4008, 4008, 4008, 8010, 8010};
          for (int i = 0; i < 10; ++i) {
            EXPECT_EQ(executor.memory().floats(at(0, 10))[i], expected[i]);
            EXPECT_EQ(executor.memory().floats(at(1, 10))[i], expected[i]);
          }
        });
    ASSERT_TRUE(status.ok()) << renderText(status.error());
  }
}

TEST(Executor, ProductsInsideRegions) {
  Program p = onMesh({});
  MatmulCommand product;
  product.m = 3;
  product.n = 2;
  product.k = 4;
  product.a = {at(0, 12), 4, 1};
  product.b = {at(1, 8), 1, 4};
  product.c = {at(2, 6), 2, 1};
  product.accumulate = true;
  p.entry(EntryKind::MicroBatch) = {{product, "mlp", 0, 48}, {product, "mlp", 0, 48}};
  const Status status = runOnRanks(
      p, {}, EntryKind::MicroBatch, 2,
      [](Executor &executor) {
        for (int i = 0; i < 12; ++i)
          executor.memory().floats(at(0, 12))[i] = static_cast<float>(i);
        for (int i = 0; i < 8; ++i)
          executor.memory().floats(at(1, 8))[i] = static_cast<float>(i - 3);
      },
      [](Executor &executor) {
        for (int i = 0; i < 3; ++i)
          for (int j = 0; j < 2; ++j) {
            float sum = 0;
            for (int x = 0; x < 4; ++x)
              sum += static_cast<float>((i * 4 + x) * (j * 4 + x - 3));
            EXPECT_EQ(executor.memory().floats(at(2, 6))[i * 2 + j], 2 * sum);
          }
      });
  ASSERT_TRUE(status.ok()) << renderText(status.error());
}

void throwOnRankOne(void *const *args, int64_t, int64_t) {
  if (*static_cast<float *>(args[0]) == 1)
    throw std::runtime_error("broken kernel");
}

TEST(Executor, TheFirstErrorReachesAllRanksAndNamesItsPlace) {
  Program p = onMesh({{"data", 3}});
  p.groups = {Group{{0}, {}}};
  p.constants = {{"rank", at(0, 1), DataType::F32, Constant::BlockStart{{0}, 1}}};
  p.entry(EntryKind::Update) = {
      {KernelCommand{"throw", {at(0, 1)}, 1, 1}, "layers.3/mlp", 0, 0},
      {AllReduceCommand{0, ReductionKind::Sum, DataType::F32, at(1, 4), at(1, 4)}, "", 0, 0}};
  const KernelSymbol symbols[] = {{"throw", throwOnRankOne}};
  const Status status =
      runOnRanks(p, symbols, EntryKind::Update, 1, [](Executor &) {}, [](Executor &) { FAIL(); });
  ASSERT_FALSE(status.ok());
  const std::string text = renderText(status.error());
  EXPECT_NE(text.find("broken kernel"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
  EXPECT_NE(text.find("layers.3/mlp"), std::string::npos) << text;
}

TEST(Executor, RefusesWhatItCannotRun) {
  Program p = onMesh({{"data", 2}});
  p.groups = {Group{{0}, {}}};
  p.entry(EntryKind::Count) = {{KernelCommand{"absent", {}, 1, 1}, "", 0, 0}};
  auto nothing = [](Executor &) {};
  Status status = runOnRanks(p, {}, EntryKind::Count, 1, nothing, nothing);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, "image.missing_kernel");
  p.entry(EntryKind::Count) = {
      {AllReduceCommand{0, ReductionKind::Sum, DataType::BF16, at(0, 1), at(0, 1)}, "", 0, 0}};
  status = runOnRanks(p, {}, EntryKind::Count, 1, nothing, nothing);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, "runtime.type_unsupported");
}

/// values, mark: adds the mark to each value.
void addMark(void *const *args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<float *>(args[0])[i] += *static_cast<float *>(args[1]);
}

TEST(Executor, AStageWorksOnTheCopyOfItsSlot) {
  Program p = onMesh({{"pipe", 2}});
  // No multiple of the alignment, so that copies lie further apart than they are long.
  p.segments.push_back({"slots", 4 * 21, 3});
  const Region values{2, 0, 4 * 8}, copied{2, 4 * 12, 4 * 8}, reduced{2, 4 * 8, 4}, mark = at(0, 1);
  p.groups = {Group{{}, {}}};
  Pipeline pipeline;
  pipeline.axes = {0};
  pipeline.stages.resize(1);
  pipeline.stages[0].number = 1;
  pipeline.stages[0].entry(StageEntry::Backward) = {
      {KernelCommand{"add_mark", {values, mark}, 8, 3}, "", 0, 0},
      {CopyCommand{values, copied}, "", 0, 0},
      {AllReduceCommand{0, ReductionKind::Sum, DataType::F32, {2, 28, 4}, reduced}, "", 0, 0}};
  p.pipeline = pipeline;
  ASSERT_TRUE(validate(p).ok()) << validate(p).error().message;
  const KernelSymbol symbols[] = {{"add_mark", addMark}};
  ThreadPool pool(2);
  auto executor = Executor::create(p, 1, symbols, pool, {nullptr}, {.profile = true});
  ASSERT_TRUE(executor.ok()) << renderText(executor.error());
  const RankMemory &memory = (*executor)->memory();
  EXPECT_GE(memory.totalBytes(), 64 + (1 << 16) + 3 * 84);
  for (int64_t slot : {0, 2, 2, 1}) {
    *memory.floats(mark) = static_cast<float>(slot + 1);
    ASSERT_TRUE((*executor)->run(0, StageEntry::Backward, slot).ok());
  }
  // Slot 2 ran twice.
  const float expected[] = {1, 2, 6};
  for (int64_t slot = 0; slot < 3; ++slot) {
    const int64_t distance = memory.distancesTo(slot)[2];
    EXPECT_EQ(distance % 64, 0);
    EXPECT_EQ(memory.distancesTo(slot)[1], 0);
    for (const Region &region : {values, copied, reduced})
      for (int64_t i = 0; i < region.bytes / 4; ++i)
        EXPECT_EQ(reinterpret_cast<float *>(memory.address(region) + distance)[i], expected[slot]);
  }
  const auto lines = summarise(p, (*executor)->commands(), (*executor)->profile());
  ASSERT_EQ(lines.size(), 3u);
  for (const ProfileLine &line : lines) {
    EXPECT_TRUE(line.name.ends_with(" of stage 1")) << line.name;
    EXPECT_EQ(line.calls, 4);
  }
}

TEST(Executor, ProfileCountsCallsAndSumsByKernel) {
  Program p = onMesh({});
  p.entry(EntryKind::Count) = {{KernelCommand{"mark", {at(0, 10)}, 10, 4}, "a", 40, 5},
                               {KernelCommand{"mark", {at(1, 10)}, 10, 4}, "b", 40, 5},
                               {ZeroCommand{at(0, 4)}, "", 16, 0}};
  const KernelSymbol symbols[] = {{"mark", markPieces}};
  ThreadPool pool(1);
  auto executor = Executor::create(p, 0, symbols, pool, {}, {.profile = true});
  ASSERT_TRUE(executor.ok());
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE((*executor)->run(EntryKind::Count).ok());
  double marks = 0;
  for (const ProfileLine &line : summarise(p, (*executor)->commands(), (*executor)->profile())) {
    EXPECT_GE(line.seconds, 0);
    if (line.name == "mark") {
      EXPECT_EQ(line.calls, 6);
      EXPECT_EQ(line.bytes, 240);
      EXPECT_EQ(line.flops, 30);
      ++marks;
    }
  }
  EXPECT_EQ(marks, 1);
}

} // namespace

// Buckets as ranks run them: the right numbers, beside what the rank computes, and an end
// for all when one rank fails while they are under way.
#include "runtime/Comm/Local/LocalWorld.h"
#include "runtime/Exec/Executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

using namespace cleave::rt;

namespace {

std::atomic<bool> isSet{false};

void set(void *const *, int64_t, int64_t) {
  isSet = true;
  isSet.notify_all();
}

/// rank: on all but rank 0 waits until rank 0 has set the flag.
void waitUntilSet(void *const *args, int64_t, int64_t) {
  if (*static_cast<const int32_t *>(args[0]) != 0)
    isSet.wait(false);
}

/// rank, which: fails on that rank.
void failOn(void *const *args, int64_t, int64_t) {
  if (*static_cast<const int32_t *>(args[0]) == *static_cast<const int32_t *>(args[1]))
    throw std::runtime_error("this rank fails");
}

constexpr KernelSymbol kernels[] = {
    {"set", set}, {"wait_until_set", waitUntilSet}, {"fail_on", failOn}};

constexpr Region rankNumber{1, 3968, 4};
Region constantOf(int32_t rank) { return {1, 3840 + 64 * rank, 4}; }

/// Two ranks with an arena of 4096 bytes; group 0 is for commands, 1 for buckets.
Program twoRanks(std::vector<Command> commands) {
  Program p;
  p.mesh.axes = {{"data", 2}};
  p.batch.globalBatch = 1;
  p.segments = {{"io", 64}, {"arena", 4096}};
  p.exchange.tokens = p.exchange.targets = {0, 0, 4};
  p.exchange.loss = {0, 8, 4};
  p.groups = {{{0}, {}}, {{0}, {}, true}};
  p.constants = {{"rank", rankNumber, DataType::I32, Constant::BlockStart{{0}, 1}},
                 {"one", constantOf(1), DataType::I32, Constant::Numbers{{1}}}};
  p.entry(EntryKind::Update) = std::move(commands);
  return p;
}

/// `visit` sees each executor before and after its entry has run.
template <typename Visit> Status runBoth(const Program &program, Visit visit) {
  const Status valid = validate(program);
  EXPECT_TRUE(valid.ok()) << renderText(valid.ok() ? Error() : valid.error());
  auto world = LocalWorld::create({2, {}, {}, {{0, 1}}});
  EXPECT_TRUE(world.ok());
  return (*world)->run([&](World &self) -> Status {
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * main, self.group({0, 1}));
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * beside, self.group({0, 1}, Lane::Beside));
    EXPECT_NE(main, beside);
    ThreadPool pool(1);
    CLEAVE_RT_ASSIGN_OR_RETURN(
        auto executor,
        Executor::create(program, self.rank(), kernels, pool, {main, beside},
                         {.endRun = [&](Error error) { self.abort(std::move(error)); },
                          .awaiting = [&](bool waits) { self.awaitBeside(waits); }}));
    visit(*executor, false);
    CLEAVE_RT_RETURN_IF_ERROR(executor->run(EntryKind::Update));
    visit(*executor, true);
    return {};
  });
}

Status runBoth(const Program &program) {
  return runBoth(program, [](const Executor &, bool) {});
}

Command kernel(const char *symbol, std::vector<Region> args) {
  return {KernelCommand{symbol, std::move(args), 1, 1}, symbol, 0, 0};
}

Command bucket(std::vector<Command> exchanges) {
  return {BesideCommand{0, std::move(exchanges)}, "weights", 0, 0};
}

Command await() { return {AwaitCommand{0}, "weights", 0, 0}; }

Command ahead(int64_t turns, Command command) {
  command.ahead = turns;
  return command;
}

const Command oneGather{AllGatherCommand{1, DataType::F32, {1, 8, 1}, {1, 0, 16}, {1, 2048, 32}},
                        "gather", 0, 0};

/// Three layers, of each of which a rank has a block of an outer and one of an inner cut.
/// They are gathered one turn ahead and copied; their sums come one turn late.
TEST(Beside, GathersAheadAndReducesBehind) {
  const Region outer{1, 0, 16, 16}, inner{1, 256, 8, 8};
  const Region outerWhole{1, 1024, 32, 32, 2}, innerWhole{1, 1152, 16, 16, 2};
  const Region source{1, 1280, 32, 32, 2}, sum{1, 1408, 16};
  RepeatCommand layers{3, 0, 1, {}};
  const Command gathers = bucket(
      {{AllGatherCommand{1, DataType::F32, {1, 7, 1}, outer, {1, 1024, 28, 32, 2}}, "", 0, 0},
       {AllGatherCommand{1, DataType::F32, {2, 2, 1}, inner, innerWhole}, "", 0, 0}});
  const Command sums{
      BesideCommand{
          1,
          {{ReduceScatterCommand{1, ReductionKind::Sum, DataType::F32, {1, 8, 1}, source, sum}, "",
            0, 0}}},
      "", 0, 0};
  layers.body = {await(),
                 ahead(1, gathers),
                 {CopyCommand{outerWhole, source}, "", 0, 0},
                 {CopyCommand{innerWhole, {1, 2048, 16, 16}}, "", 0, 0},
                 ahead(-1, {AwaitCommand{1}, "", 0, 0}),
                 ahead(-1, {CopyCommand{sum, {1, 3072, 16, 16}}, "", 0, 0}),
                 sums};
  const Program program = twoRanks({{layers, "layers", 0, 0}});
  auto value = [](int64_t layer, int64_t index) {
    return static_cast<float>(100 * layer + 3 * index + 1);
  };
  const Status status = runBoth(program, [&](const Executor &executor, bool isDone) {
    const int64_t rank = executor.rank();
    for (int64_t layer = 0; layer < 3; ++layer) {
      float *block = executor.memory().floats({1, 16 * layer, 16});
      float *cut = executor.memory().floats({1, 256 + 8 * layer, 8});
      const float *joined = executor.memory().floats({1, 2048 + 16 * layer, 16});
      const float *reduced = executor.memory().floats({1, 3072 + 16 * layer, 16});
      for (int64_t i = 0; i < 4 && !isDone; ++i)
        block[i] = value(layer, 4 * rank + i);
      // The whole is 2 × 2, of which a rank has a column.
      for (int64_t i = 0; i < 2 && !isDone; ++i)
        cut[i] = value(layer, 2 * i + rank);
      for (int64_t i = 0; i < 4 && isDone; ++i) {
        EXPECT_EQ(joined[i], value(layer, i)) << layer;
        const int64_t index = 4 * rank + i;
        EXPECT_EQ(reduced[i], index < 7 ? 2 * value(layer, index) : 0) << layer;
      }
    }
  });
  EXPECT_TRUE(status.ok()) << renderText(status.ok() ? Error() : status.error());
}

/// Rank 1 comes to its start when rank 0 has gone on behind its own.
TEST(Beside, RunsBesideTheCommands) {
  isSet = false;
  const Status status =
      runBoth(twoRanks({kernel("wait_until_set", {rankNumber}), bucket({oneGather}),
                        kernel("set", {rankNumber}), await()}));
  EXPECT_TRUE(status.ok()) << renderText(status.ok() ? Error() : status.error());
}

/// Rank 0 fails while its bucket waits for rank 1.
TEST(Beside, AFailureBesideABucketEndsAll) {
  isSet = false;
  const Status status = runBoth(twoRanks(
      {kernel("wait_until_set", {rankNumber}), bucket({oneGather}), kernel("set", {rankNumber}),
       kernel("fail_on", {rankNumber, constantOf(0)}), await()}));
  ASSERT_FALSE(status.ok());
  const std::string text = renderText(status.error());
  EXPECT_NE(text.find("on rank 0, update command 3: kernel of fail_on"), std::string::npos) << text;
}

/// Rank 1 fails before it starts what rank 0 awaits.
TEST(Beside, AFailureReachesWhoAwaits) {
  const Status status = runBoth(
      twoRanks({kernel("fail_on", {rankNumber, constantOf(1)}), bucket({oneGather}), await()}));
  ASSERT_FALSE(status.ok());
  const std::string text = renderText(status.error());
  EXPECT_NE(text.find("on rank 1, update command 0: kernel of fail_on"), std::string::npos) << text;
}

} // namespace

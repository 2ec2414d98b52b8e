//===- PropertiesTest.cpp - What holds of every schedule and size ----------===//
//
// Every table passes the verifier of the dialect, and takes the time and memory that a
// simulation tick by tick finds.
//
//===----------------------------------------------------------------------===//

#include "BruteForce.h"
#include "dialects/Pipe/Pipe.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"
#include <gtest/gtest.h>
#include <random>

namespace cleave {
namespace {

/// The table as IR; null if the verifier refuses it.
mlir::OwningOpRef<mlir::ModuleOp> toModule(const pipe::Table &table, mlir::MLIRContext &context) {
  mlir::OpBuilder b(&context);
  mlir::Location loc = b.getUnknownLoc();
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(loc);
  b.setInsertionPointToStart(module->getBody());
  auto schedule =
      pipe::ScheduleOp::create(b, loc, "step", "test", table.microBatches, table.buffers);
  b.setInsertionPointToStart(&schedule.getBody().emplaceBlock());
  for (auto [i, rank] : llvm::enumerate(table.rankOfStage))
    pipe::StageOp::create(b, loc, i, rank, mlir::ArrayAttr(), mlir::DenseI64ArrayAttr());
  for (auto [i, rank] : llvm::enumerate(table.ranks))
    pipe::RankOp::create(b, loc, i, rank.slots, pipe::ActionsAttr::get(&context, rank.actions));
  if (failed(mlir::verify(*module)))
    return {};
  return module;
}

class Properties : public testing::Test {
protected:
  Properties() { context.loadDialect<pipe::PipeDialect>(); }

  void compare(const pipe::Table &table, const pipe::Times &times) {
    const pipe::Timeline timeline = playOut(table, times);
    ASSERT_TRUE(timeline.finished);
    const ScheduleFacts facts = factsOf(table, timeline);
    const BruteForceResult expected = bruteForce(table, times);
    EXPECT_EQ(expected.broken, "");
    EXPECT_EQ(facts.makespan, expected.makespan);
    for (size_t rank = 0; rank < table.ranks.size(); ++rank) {
      EXPECT_EQ(facts.busy[rank], expected.busy[rank]);
      EXPECT_EQ(table.ranks[rank].slots, facts.inFlight[rank]);
      EXPECT_GE(facts.inFlight[rank], expected.inFlight[rank]);
    }
  }

  mlir::MLIRContext context;
};

/// Every schedule at every small size, M below, at and between multiples of P.
TEST_F(Properties, AllSmallSizes) {
  for (const Schedule &schedule : allSchedules())
    for (int64_t ranks = 1; ranks <= 6; ++ranks)
      for (int64_t perRank = schedule.severalStages ? 2 : 1;
           perRank <= (schedule.severalStages ? 4 : 1); ++perRank)
        for (int64_t micro = 1; micro <= 14; ++micro) {
          SCOPED_TRACE((schedule.name + " P=" + llvm::Twine(ranks) + " v=" + llvm::Twine(perRank) +
                        " M=" + llvm::Twine(micro))
                           .str());
          const pipe::Table table = makeTable(schedule, {ranks, ranks * perRank, micro});
          EXPECT_TRUE(toModule(table, context));
          compare(table, pipe::equalTimes(table.hasWeightGradients()));
        }
}

TEST_F(Properties, RandomTimes) {
  std::mt19937 random(7);
  auto pick = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int i = 0; i < 400; ++i) {
    const Schedule &schedule = allSchedules()[pick(0, allSchedules().size() - 1)];
    const int64_t ranks = pick(1, 7), perRank = schedule.severalStages ? pick(2, 3) : 1;
    const int64_t micro = pick(1, 20);
    SCOPED_TRACE((schedule.name + " P=" + llvm::Twine(ranks) + " v=" + llvm::Twine(perRank) +
                  " M=" + llvm::Twine(micro) + " round " + llvm::Twine(i))
                     .str());
    const pipe::Table table = makeTable(schedule, {ranks, ranks * perRank, micro});
    pipe::Times times;
    times.stages.clear();
    for (int64_t stage = 0; stage < table.stages(); ++stage)
      times.stages.push_back({double(pick(1, 5)), double(pick(1, 9)), double(pick(1, 5))});
    times.transfer = double(pick(0, 3));
    compare(table, times);
  }
}

/// Stages need not be dealt out in turn: two neighbours on a rank, as in a V.
TEST_F(Properties, NeighboursOnARank) {
  const int64_t rankOfStage[] = {0, 1, 1, 0};
  ComputeOrder order(2);
  using pipe::ActionKind;
  for (int64_t m = 0; m < 3; ++m)
    for (auto [rank, kind, stage] : {std::tuple{0, ActionKind::Forward, 0},
                                     {1, ActionKind::Forward, 1},
                                     {1, ActionKind::Forward, 2},
                                     {0, ActionKind::Forward, 3},
                                     {0, ActionKind::Backward, 3},
                                     {1, ActionKind::Backward, 2},
                                     {1, ActionKind::Backward, 1},
                                     {0, ActionKind::Backward, 0}})
      order[rank].push_back({kind, stage, m});
  pipe::Table table = addTransfers(order, rankOfStage, 3);
  EXPECT_TRUE(toModule(table, context));
  EXPECT_EQ(table.ranks[1].slots, 2);
  compare(table, pipe::equalTimes(false));
}

/// What is received in another order than it is used waits in its slot.
TEST_F(Properties, ChannelsKeepTheSendersOrder) {
  const int64_t rankOfStage[] = {0, 1};
  using pipe::ActionKind;
  ComputeOrder order = {{{ActionKind::Forward, 0, 0},
                         {ActionKind::Forward, 0, 1},
                         {ActionKind::Backward, 0, 1},
                         {ActionKind::Backward, 0, 0}},
                        {{ActionKind::Forward, 1, 1},
                         {ActionKind::Backward, 1, 1},
                         {ActionKind::Forward, 1, 0},
                         {ActionKind::Backward, 1, 0}}};
  pipe::Table table = addTransfers(order, rankOfStage, 2);
  EXPECT_TRUE(toModule(table, context));
  EXPECT_EQ(table.ranks[1].slots, 2);
  EXPECT_EQ(slotsInUse(table, 1).front(), 1);
  compare(table, pipe::equalTimes(false));
}

TEST_F(Properties, TextReadsBack) {
  for (const Schedule &schedule : allSchedules()) {
    const int64_t perRank = schedule.severalStages ? 2 : 1;
    auto module = toModule(makeTable(schedule, {3, 3 * perRank, 5}), context);
    ASSERT_TRUE(module);
    std::string text, again;
    llvm::raw_string_ostream(text) << *module;
    auto read = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(read) << text;
    llvm::raw_string_ostream(again) << *read;
    EXPECT_EQ(text, again);
  }
}

/// Where no channel can hold enough, ranks wait for each other; the player says so.
TEST_F(Properties, AStandstillIsSeen) {
  pipe::Table table;
  table.microBatches = 1;
  table.rankOfStage = {0, 1};
  using pipe::ActionKind;
  table.ranks = {{1,
                  {{ActionKind::Forward, 0, 0, 0},
                   {ActionKind::ReceiveGradient, 1, 0, 0, 1},
                   {ActionKind::SendActivation, 1, 0, 0, 1},
                   {ActionKind::Backward, 0, 0, 0}}},
                 {1,
                  {{ActionKind::ReceiveActivation, 1, 0, 0, 0},
                   {ActionKind::Forward, 1, 0, 0},
                   {ActionKind::Backward, 1, 0, 0},
                   {ActionKind::SendGradient, 1, 0, 0, 0}}}};
  const pipe::Timeline timeline = playOut(table, pipe::Times());
  EXPECT_FALSE(timeline.finished);
  EXPECT_EQ(timeline.ranks[0].size(), 1u);
  EXPECT_EQ(timeline.ranks[1].size(), 0u);
  EXPECT_EQ(bruteForce(table, pipe::Times()).makespan, -1);
}

} // namespace
} // namespace cleave

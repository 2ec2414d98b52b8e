//===- ClosedFormsTest.cpp - Schedules against their formulas --------------===//
//
// With p ranks, m micro-batches and equal stages of forward f and backward b (w for the
// gradients of weights where apart):
//
//   gpipe, 1f1b   makespan (m + p - 1)(f + b), bubble (p - 1)/(m + p - 1)
//   interleaved   idle (p - 1)(f + b) for v stages of f and b each, m a multiple of p
//   zb-h1         idle (p - 1)(f + b - w), from m = p on
//
//===----------------------------------------------------------------------===//

#include "cleave/Schedule/Schedule.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

struct Result {
  pipe::Table table;
  ScheduleFacts facts;
};

Result run(llvm::StringRef name, int64_t ranks, int64_t perRank, int64_t microBatches,
           pipe::StageTimes times) {
  const Schedule *schedule = findSchedule(name);
  EXPECT_NE(schedule, nullptr);
  pipe::Table table = makeTable(*schedule, {ranks, ranks * perRank, microBatches});
  pipe::Times all;
  all.stages = {times};
  const pipe::Timeline timeline = playOut(table, all);
  EXPECT_TRUE(timeline.finished);
  return {table, factsOf(table, timeline)};
}

TEST(ClosedForms, MakespanOfOneForwardOneBackward) {
  // Case J04.
  Result result = run("1f1b", 4, 1, 8, {1, 2, 0});
  EXPECT_EQ(result.facts.makespan, 33);
  int64_t forward = 0, backward = 0;
  for (const auto &rank : result.table.ranks)
    for (const pipe::Action &action : rank.actions) {
      forward += action.kind == pipe::ActionKind::Forward;
      backward += action.kind == pipe::ActionKind::Backward;
    }
  EXPECT_EQ(forward, 32);
  EXPECT_EQ(backward, 32);
  for (double busy : result.facts.busy)
    EXPECT_EQ(result.facts.makespan - busy, 9);
}

TEST(ClosedForms, BubbleOfOneForwardOneBackward) {
  // Cases A09 and C05.
  EXPECT_DOUBLE_EQ(run("1f1b", 6, 1, 3, {1, 2, 0}).facts.bubble(), 0.625);
  EXPECT_NEAR(run("1f1b", 8, 1, 8, {1, 2, 0}).facts.bubble(), 7. / 15, 1e-12);
  EXPECT_NEAR(run("1f1b", 8, 1, 16, {1, 2, 0}).facts.bubble(), 7. / 23, 1e-12);
}

/// Counted along the order.
int64_t countInFlight(const std::vector<pipe::Action> &actions, bool apart) {
  const pipe::ActionKind last =
      apart ? pipe::ActionKind::WeightGradient : pipe::ActionKind::Backward;
  int64_t held = 0, most = 0;
  for (const pipe::Action &action : actions) {
    held += (action.kind == pipe::ActionKind::Forward) - (action.kind == last);
    most = std::max(most, held);
  }
  return most;
}

TEST(ClosedForms, InFlightIsWhatTheOrderHas) {
  for (const Schedule &schedule : allSchedules())
    for (int64_t ranks = 1; ranks <= 9; ++ranks)
      for (int64_t perRank = schedule.severalStages ? 2 : 1;
           perRank <= (schedule.severalStages ? 5 : 1); ++perRank)
        for (int64_t micros = 1; micros <= 40; ++micros) {
          const PipelineShape shape{ranks, ranks * perRank, micros};
          const ComputeOrder order = schedule.order(shape);
          for (int64_t rank = 0; rank < ranks; ++rank)
            EXPECT_EQ(schedule.inFlight(shape, rank),
                      countInFlight(order[rank], schedule.name == "zb-h1"))
                << schedule.name.str() << " " << ranks << " " << perRank << " " << micros;
        }
}

TEST(ClosedForms, InFlightOfTheCases) {
  // Case B04.
  using List = std::vector<int64_t>;
  EXPECT_EQ(run("1f1b", 4, 1, 8, {1, 2, 0}).facts.inFlight, (List{4, 3, 2, 1}));
  EXPECT_EQ(run("1f1b", 4, 1, 2, {1, 2, 0}).facts.inFlight, (List{2, 2, 2, 1}));
  EXPECT_EQ(run("gpipe", 4, 1, 8, {1, 2, 0}).facts.inFlight, (List{8, 8, 8, 8}));
}

TEST(ClosedForms, SlotsInUseActionByAction) {
  const pipe::Table table = run("1f1b", 2, 1, 3, {1, 2, 0}).table;
  using List = std::vector<int64_t>;
  // F0 send F1 send, recv B0, F2 send, recv B1, recv B2.
  EXPECT_EQ(slotsInUse(table, 0), (List{1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1}));
  EXPECT_EQ(slotsInUse(table, 1), List(12, 1));
}

TEST(ClosedForms, OneStageOnARank) {
  for (int64_t p = 1; p <= 12; ++p)
    for (int64_t m = 1; m <= 30; ++m)
      for (auto times : {pipe::StageTimes{1, 2, 0}, pipe::StageTimes{1, 1, 0}})
        for (llvm::StringRef name : {"gpipe", "1f1b"}) {
          SCOPED_TRACE((name + " p=" + llvm::Twine(p) + " m=" + llvm::Twine(m)).str());
          const ScheduleFacts facts = run(name, p, 1, m, times).facts;
          EXPECT_EQ(facts.makespan, (m + p - 1) * (times.forward + times.backward));
          EXPECT_NEAR(facts.bubble(), double(p - 1) / double(m + p - 1), 1e-12);
          for (int64_t s = 0; s < p; ++s)
            EXPECT_EQ(facts.inFlight[s], name == "gpipe" ? m : std::min(p - s, m));
        }
}

TEST(ClosedForms, SeveralStagesOnARank) {
  for (int64_t p = 2; p <= 8; ++p)
    for (int64_t v = 2; v <= 4; ++v)
      for (int64_t groups = 1; groups <= 4; ++groups) {
        const int64_t m = p * groups;
        SCOPED_TRACE(
            ("p=" + llvm::Twine(p) + " v=" + llvm::Twine(v) + " m=" + llvm::Twine(m)).str());
        // A stage takes a v-th of the rank's time for a micro-batch.
        const ScheduleFacts facts = run("interleaved", p, v, m, {1, 2, 0}).facts;
        EXPECT_EQ(facts.makespan, 3 * m * v + 3 * (p - 1));
        for (double busy : facts.busy)
          EXPECT_EQ(facts.makespan - busy, 3 * (p - 1));
        for (int64_t s = 0; s < p; ++s)
          EXPECT_EQ(facts.inFlight[s], std::min(2 * (p - s - 1) + (v - 1) * p + 1, m * v));
      }
}

/// Case C05: where nine tenths of a stage's time do not shrink with a micro-batch, twice
/// as many of half the size make the bubble smaller and the step longer.
TEST(ClosedForms, OverheadEatsTheBubble) {
  const ScheduleFacts eight = run("1f1b", 8, 1, 8, {1 + 9, 2 + 18, 0}).facts;
  const ScheduleFacts sixteen = run("1f1b", 8, 1, 16, {0.5 + 9, 1 + 18, 0}).facts;
  EXPECT_LT(sixteen.bubble(), eight.bubble());
  EXPECT_DOUBLE_EQ(eight.makespan, 15 * 30);
  EXPECT_DOUBLE_EQ(sixteen.makespan, 23 * 28.5);
}

/// Channels of one value are enough for all of them.
TEST(ClosedForms, OneBuffer) {
  for (const Schedule &schedule : allSchedules())
    for (int64_t p = 1; p <= 8; ++p)
      for (int64_t m = 1; m <= 24; ++m) {
        const int64_t v = schedule.severalStages ? 3 : 1;
        EXPECT_EQ(makeTable(schedule, {p, p * v, m}).buffers, 1)
            << schedule.name.str() << " p=" << p << " m=" << m;
      }
}

TEST(ClosedForms, GradientsOfWeightsApart) {
  for (int64_t p = 1; p <= 10; ++p)
    for (int64_t m = p; m <= 3 * p + 4; ++m) {
      SCOPED_TRACE(("p=" + llvm::Twine(p) + " m=" + llvm::Twine(m)).str());
      const ScheduleFacts facts = run("zb-h1", p, 1, m, {1, 1, 1}).facts;
      EXPECT_EQ(facts.makespan, 3 * m + (p - 1));
      for (double busy : facts.busy)
        EXPECT_EQ(facts.makespan - busy, p - 1);
      // As many as 1f1b's first rank has.
      for (int64_t used : facts.inFlight)
        EXPECT_EQ(used, std::min(p, m));
    }
}

} // namespace
} // namespace cleave

// Which tokens land where, for cut batches and cut sequences, by the definition
// in BatchLayout.
#include "TrainRun.h"

#include "runtime/Train/Batches.h"

#include <gtest/gtest.h>

#include <set>

using namespace cleave::rt;

namespace {

/// data=2 × context=3, two micro-batches of two sequences of 7 tokens.
Program cutProgram() {
  Program p;
  p.mesh.axes = {{"context", 3}, {"data", 2}};
  p.batch = {.globalBatch = 8,
             .microBatch = 2,
             .microBatches = 2,
             .sequence = 7,
             .vocabulary = 64,
             .dataAxes = {1},
             .sequenceAxes = {0}};
  p.segments = {{"io", 1024}};
  const int64_t bytes = 4 * 2 * 3; // ceil(7 / 3) positions
  p.exchange.tokens = {0, 0, bytes};
  p.exchange.targets = {0, 256, bytes};
  p.exchange.positions = Region{0, 512, bytes};
  p.exchange.loss = {0, 768, 4};
  return p;
}

TEST(Batches, EveryTokenOfTheGlobalBatchIsReadOnceWhereItBelongs) {
  TrainRun run(7 * 20 + 1);
  const Program p = cutProgram();
  ASSERT_TRUE(validate(p).ok()) << validate(p).error().message;
  auto data = TokenDataset::open({run.file("tokens.bin")}, {.sequenceLength = 7, .vocabulary = 64});
  ASSERT_TRUE(data.ok());
  std::set<int64_t> seen;
  for (int64_t rank = 0; rank < 6; ++rank) {
    const int64_t context = rank / 2, dataRank = rank % 2;
    auto memory = RankMemory::allocate(p);
    BatchReader reader(p, rank, *data, *memory);
    for (int64_t m = 0; m < 2; ++m) {
      ASSERT_TRUE(reader.fillTraining(8, m).ok());
      for (int64_t row = 0; row < 2; ++row)
        for (int64_t t = 0; t < 3; ++t) {
          const int64_t at = row * 3 + t, position = context * 3 + t;
          const int64_t sequence = 8 + (dataRank * 2 + m) * 2 + row;
          const bool real = position < 7;
          const int64_t token = sequence * 7 + position;
          EXPECT_EQ(memory->ints(p.exchange.tokens)[at], real ? run.tokens()[token] : 0);
          EXPECT_EQ(memory->ints(p.exchange.targets)[at],
                    real ? run.tokens()[token + 1] : ignoredTarget);
          EXPECT_EQ(memory->ints(*p.exchange.positions)[at], position);
          if (real) {
            EXPECT_TRUE(seen.insert(token).second);
          }
        }
    }
  }
  EXPECT_EQ(seen.size(), 8u * 7u);
  EXPECT_EQ(*seen.begin(), 8 * 7);
}

TEST(Batches, ZigzagGivesEachRankEarlyAndLateTokens) {
  TrainRun run(7 * 20 + 1);
  Program p = cutProgram();
  p.batch.zigzag = 3;
  ASSERT_TRUE(validate(p).ok()) << validate(p).error().message;
  auto data = TokenDataset::open({run.file("tokens.bin")}, {.sequenceLength = 7, .vocabulary = 64});
  ASSERT_TRUE(data.ok());
  const int64_t held[3][3] = {{0, 1, 6}, {2, 3, 5}, {4, -1, -1}};
  for (int64_t context = 0; context < 3; ++context) {
    auto memory = RankMemory::allocate(p);
    BatchReader reader(p, context * 2, *data, *memory);
    ASSERT_TRUE(reader.fillTraining(0, 0).ok());
    for (int64_t row = 0; row < 2; ++row)
      for (int64_t t = 0; t < 3; ++t) {
        const int64_t position = held[context][t], at = row * 3 + t;
        if (position < 0) {
          EXPECT_EQ(memory->ints(p.exchange.targets)[at], ignoredTarget);
          continue;
        }
        EXPECT_EQ(memory->ints(*p.exchange.positions)[at], position);
        EXPECT_EQ(memory->ints(p.exchange.tokens)[at], run.tokens()[row * 7 + position]);
        EXPECT_EQ(memory->ints(p.exchange.targets)[at], run.tokens()[row * 7 + position + 1]);
      }
  }
}

TEST(Batches, AnEvaluationEndsWithRowsThatDoNotCount) {
  TrainRun run(7 * 20 + 1);
  const Program p = cutProgram();
  auto data = TokenDataset::open({run.file("tokens.bin")}, {.sequenceLength = 7, .vocabulary = 64});
  ASSERT_TRUE(data.ok());
  for (int64_t rank = 0; rank < 2; ++rank) { // context 0
    auto memory = RankMemory::allocate(p);
    BatchReader reader(p, rank, *data, *memory);
    ASSERT_TRUE(reader.fillEvaluation(1, 7).ok());
    for (int64_t row = 0; row < 2; ++row) {
      const int64_t sequence = 4 + rank * 2 + row;
      EXPECT_EQ(memory->ints(p.exchange.targets)[row * 3],
                sequence < 7 ? run.tokens()[sequence * 7 + 1] : ignoredTarget);
    }
  }
}

} // namespace

// Sequences of one and several files, samples over epochs (E05, H06 counts).
#include "runtime/Data/TokenDataset.h"

#include "test/Unit/Runtime/Data/TokenBytes.h"
#include "test/Unit/Runtime/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <map>

using namespace cleave::rt;

namespace {

DatasetOptions options(uint64_t length, OrderKind order = OrderKind::Sequential) {
  DatasetOptions result;
  result.sequenceLength = length;
  result.vocabulary = 5000;
  result.order = order;
  return result;
}

TEST(TokenDataset, SequenceIIsTokensFromIS) {
  TemporaryFolder folder;
  put(folder.file("a"), bytesOf(countingIds<uint16_t>(1003, 5000)));
  const StatusOr<TokenDataset> data = TokenDataset::open({folder.file("a")}, options(100));
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->sequences(), 10u);
  EXPECT_EQ(data->tokens(), 1003u);
  EXPECT_EQ(data->unusedTokens(), 2u);
  std::vector<int32_t> out(101);
  for (uint64_t sample : {0, 3, 9, 10, 25}) {
    ASSERT_TRUE(data->readSample(sample, out).ok());
    for (int t = 0; t <= 100; ++t)
      ASSERT_EQ(out[t], static_cast<int32_t>(sample % 10 * 100 + t));
  }
}

TEST(TokenDataset, SequencesDoNotCrossFiles) {
  TemporaryFolder folder;
  put(folder.file("a"), bytesOf(countingIds<uint16_t>(25, 5000)));
  put(folder.file("b"), bytesOf(std::vector<uint16_t>(12, 777)));
  const StatusOr<TokenDataset> data =
      TokenDataset::open({folder.file("a"), folder.file("b")}, options(10));
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->sequences(), 3u);
  EXPECT_EQ(data->unusedTokens(), 4u + 1u);
  std::vector<int32_t> out(11);
  ASSERT_TRUE(data->readSequence(1, out).ok());
  EXPECT_EQ(out[10], 20);
  ASSERT_TRUE(data->readSequence(2, out).ok());
  for (int32_t id : out)
    EXPECT_EQ(id, 777);
  EXPECT_EQ(data->readSequence(3, out).error().kind, "internal");
}

TEST(TokenDataset, OneSequenceNeedsOneTokenMore) {
  TemporaryFolder folder;
  put(folder.file("a"), bytesOf(countingIds<uint16_t>(32, 100)));
  EXPECT_TRUE(TokenDataset::open({folder.file("a")}, options(31)).ok());
  const StatusOr<TokenDataset> data = TokenDataset::open({folder.file("a")}, options(32));
  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.error().kind, "data.too_short");
  EXPECT_NE(data.error().rule.find("33 tokens"), std::string::npos);
  DatasetOptions wide = options(8);
  wide.vocabulary = 128256;
  EXPECT_EQ(TokenDataset::open({folder.file("a")}, wide).error().kind, "data.width_too_small");
  EXPECT_EQ(TokenDataset::open({}, options(8)).error().kind, "data.empty");
}

TEST(TokenDataset, EpochsThatEndAtAStopAreNotEmpty) {
  // 16 sequences, batch 4, 3 epochs = 12 steps in three parts of 4 steps: each
  // part starts from the count of samples consumed, nothing else.
  TemporaryFolder folder;
  put(folder.file("a"), bytesOf(countingIds<uint16_t>(16 * 8 + 1, 5000)));
  for (OrderKind order : {OrderKind::Sequential, OrderKind::Shuffle}) {
    std::map<int32_t, int> seen;
    uint64_t consumed = 0, steps = 0;
    for (int part = 0; part < 3; ++part) {
      const StatusOr<TokenDataset> data = TokenDataset::open({folder.file("a")}, options(8, order));
      ASSERT_TRUE(data.ok());
      std::vector<int32_t> out(9);
      for (int step = 0; step < 4; ++step, ++steps)
        for (int i = 0; i < 4; ++i) {
          ASSERT_TRUE(data->readSample(consumed++, out).ok());
          ++seen[out[0]];
        }
    }
    EXPECT_EQ(steps, 12u);
    EXPECT_EQ(seen.size(), 16u);
    for (const auto &[first, times] : seen)
      EXPECT_EQ(times, 3) << first;
  }
}

TEST(TokenDataset, DigestTellsOtherData) {
  TemporaryFolder folder;
  put(folder.file("a"), bytesOf(countingIds<uint16_t>(100, 5000)));
  put(folder.file("b"), bytesOf(countingIds<uint16_t>(101, 5000)));
  const uint32_t a = TokenDataset::open({folder.file("a")}, options(8))->digest();
  EXPECT_EQ(a, TokenDataset::open({folder.file("a")}, options(8))->digest());
  EXPECT_NE(a, TokenDataset::open({folder.file("b")}, options(8))->digest());
  // The same name and size, one token another.
  std::vector<uint16_t> ids = countingIds<uint16_t>(100, 5000);
  ids[50] = 7;
  put(folder.file("a"), bytesOf(ids));
  EXPECT_NE(a, TokenDataset::open({folder.file("a")}, options(8))->digest());
}

TEST(TokenDataset, IdsAreCheckedAsFarAsAsked) {
  TemporaryFolder folder;
  put(folder.file("a"), bytesOf(countingIds<uint16_t>(100'001, 5000)));
  std::vector<uint16_t> ids(25, 3);
  ids[16] = 5000; // the last target of the second sequence of 8, the first input of the third
  put(folder.file("b"), bytesOf(ids));
  const auto data = TokenDataset::open({folder.file("a"), folder.file("b")}, options(8));
  ASSERT_TRUE(data.ok());
  EXPECT_TRUE(data->checkIds(0).ok());
  EXPECT_TRUE(data->checkIds(12'501).ok());
  for (uint64_t count : {12'502u, 12'503u, 99'999u}) {
    const Status status = data->checkIds(count);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, "data.token_out_of_range");
    EXPECT_NE(status.error().message.find("token 16 "), std::string::npos);
  }
}

} // namespace

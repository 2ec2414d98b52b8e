// Every collective against plain loops: 1 to 8 ranks (more than this machine
// may have cores), odd sizes, random times of arrival; results must be bitwise
// those of a loop in rank order.
#include "Expected.h"

#include "runtime/Comm/Local/LocalWorld.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

using namespace cleave::rt;

namespace {

void arriveLate(std::mt19937 &random) {
  switch (random() % 4) {
  case 0:
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    break;
  case 1:
    std::this_thread::yield();
    break;
  default:
    break;
  }
}

std::unique_ptr<LocalWorld> makeWorld(int ranks, const std::vector<std::vector<int>> &groups = {}) {
  auto world = LocalWorld::create({ranks, groups, {}});
  EXPECT_TRUE(world.ok());
  return std::move(*world);
}

class Collectives : public ::testing::TestWithParam<int> {};

// What a member stages ends at 512 floats: blocks of that over the number of others.
const size_t sizes[] = {0, 1, 3, 17, 128, 129, 256, 257, 511, 512, 513, 2048, 5003};

TEST_P(Collectives, AllReduceIsTheLoopInRankOrder) {
  const int ranks = GetParam();
  const Status status = makeWorld(ranks)->run([&](World &world) -> Status {
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, world.group(everyone(ranks)));
    std::mt19937 random(static_cast<unsigned>(world.rank()));
    for (ReduceKind kind : {ReduceKind::Sum, ReduceKind::Max})
      for (size_t size : sizes) {
        const Buffers all = randomBuffers(ranks, size, static_cast<unsigned>(size));
        std::vector<float> mine = all[world.rank()];
        arriveLate(random);
        CLEAVE_RT_RETURN_IF_ERROR(comm->allReduce(mine, kind));
        EXPECT_TRUE(sameBits(mine, reducedInOrder(all, kind))) << size;
      }
    return Status::success();
  });
  EXPECT_TRUE(status.ok()) << renderText(status.error());
}

TEST_P(Collectives, ReduceScatterGivesEachItsBlock) {
  const int ranks = GetParam();
  const Status status = makeWorld(ranks)->run([&](World &world) -> Status {
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, world.group(everyone(ranks)));
    std::mt19937 random(static_cast<unsigned>(world.rank()) + 100);
    for (size_t block : sizes)
      for (bool inPlace : {false, true}) {
        const Buffers all = randomBuffers(ranks, block * ranks, static_cast<unsigned>(block));
        std::vector<float> send = all[world.rank()], out(block, NAN);
        const size_t first = block * world.rank();
        std::span<float> receive = inPlace ? std::span(send).subspan(first, block) : std::span(out);
        arriveLate(random);
        CLEAVE_RT_RETURN_IF_ERROR(comm->reduceScatter(send, receive, ReduceKind::Sum));
        const std::vector<float> expected = reducedInOrder(all, ReduceKind::Sum);
        EXPECT_TRUE(sameBits(receive, std::span(expected).subspan(first, block))) << block;
      }
    return Status::success();
  });
  EXPECT_TRUE(status.ok()) << renderText(status.error());
}

TEST_P(Collectives, AMessageOfPartsIsOneCall) {
  const int ranks = GetParam();
  const Status status = makeWorld(ranks)->run([&](World &world) -> Status {
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, world.group(everyone(ranks)));
    for (ReduceKind reduction : {ReduceKind::Sum, ReduceKind::Max}) {
      CLEAVE_RT_ASSIGN_OR_RETURN(const bool isRight, exchangesInParts(*comm, sizes, reduction));
      EXPECT_TRUE(isRight);
    }
    size_t floats = 0;
    for (size_t block : sizes)
      floats += block * static_cast<size_t>(ranks);
    for (CollectiveKind kind :
         {CollectiveKind::AllGather, CollectiveKind::AllReduce, CollectiveKind::ReduceScatter}) {
      EXPECT_EQ(comm->traffic(kind).calls, 2u);
      EXPECT_EQ(comm->traffic(kind).bytes, 2 * 4 * floats);
    }
    return Status::success();
  });
  EXPECT_TRUE(status.ok()) << renderText(status.error());
}

TEST(Lanes, HaveCommunicatorsOfTheirOwn) {
  auto world = LocalWorld::create({2, {}, {}, {{0, 1}}});
  ASSERT_TRUE(world.ok());
  const Status status = (*world)->run([&](World &self) -> Status {
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * main, self.group({0, 1}));
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * beside, self.group({0, 1}, Lane::Beside));
    // In another order on each rank: neither waits for the other.
    std::thread other([&] {
      if (self.rank() == 0)
        EXPECT_TRUE(beside->barrier().ok());
      else
        EXPECT_TRUE(main->barrier().ok());
    });
    const Status mine = self.rank() == 0 ? main->barrier() : beside->barrier();
    other.join();
    EXPECT_EQ(main->traffic(CollectiveKind::Barrier).calls, 1u);
    EXPECT_EQ(beside->traffic(CollectiveKind::Barrier).calls, 1u);
    return mine;
  });
  EXPECT_TRUE(status.ok()) << renderText(status.error());
}

TEST_P(Collectives, AllGatherAndAllToAllAndBroadcastMoveBlocks) {
  const int ranks = GetParam();
  const Status status = makeWorld(ranks)->run([&](World &world) -> Status {
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, world.group(everyone(ranks)));
    const size_t self = world.rank();
    std::mt19937 random(static_cast<unsigned>(self) + 200);
    for (size_t block : sizes) {
      const Buffers all = randomBuffers(ranks, block * ranks, static_cast<unsigned>(block) + 1);
      std::vector<float> out(block * ranks, NAN), expected(block * ranks);
      const std::span<const float> mine(all[self]);
      arriveLate(random);
      CLEAVE_RT_RETURN_IF_ERROR(comm->allGather(mine.first(block), out));
      for (int r = 0; r < ranks; ++r)
        std::copy_n(all[r].begin(), block, expected.begin() + r * block);
      EXPECT_TRUE(sameBits(out, expected)) << block;
      // In place: the block already lies where it belongs.
      std::vector<float> gathered(block * ranks, NAN);
      std::copy_n(all[self].begin(), block, gathered.begin() + self * block);
      CLEAVE_RT_RETURN_IF_ERROR(
          comm->allGather(std::span(gathered).subspan(self * block, block), gathered));
      EXPECT_TRUE(sameBits(gathered, expected)) << block;

      arriveLate(random);
      CLEAVE_RT_RETURN_IF_ERROR(comm->allToAll(mine, out));
      for (int r = 0; r < ranks; ++r)
        std::copy_n(all[r].begin() + self * block, block, expected.begin() + r * block);
      EXPECT_TRUE(sameBits(out, expected)) << block;

      const int root = static_cast<int>(block % ranks);
      std::vector<float> data = all[self];
      arriveLate(random);
      CLEAVE_RT_RETURN_IF_ERROR(comm->broadcast(data, root));
      EXPECT_TRUE(sameBits(data, all[root])) << block;
      CLEAVE_RT_RETURN_IF_ERROR(comm->barrier());
    }
    return Status::success();
  });
  EXPECT_TRUE(status.ok()) << renderText(status.error());
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, ::testing::Values(1, 2, 3, 4, 5, 8));

TEST(LocalWorld, GroupsOfAGridWorkSideBySide) {
  // Rank = 2·row + column; a sum over rows' groups, then over columns'. The
  // groups of columns are listed backwards: order is the group's own.
  const std::vector<std::vector<int>> groups = {{0, 1}, {2, 3}, {2, 0}, {3, 1}};
  const Status status = makeWorld(4, groups)->run([&](World &world) -> Status {
    const int self = world.rank();
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * row, world.group(groups[self / 2]));
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * column, world.group(groups[2 + self % 2]));
    EXPECT_EQ(row->rank(), self % 2);
    EXPECT_EQ(column->rank(), self < 2 ? 1 : 0);
    std::mt19937 random(static_cast<unsigned>(self));
    for (int round = 0; round < 300; ++round) {
      std::vector<float> value(5, static_cast<float>(self + round));
      arriveLate(random);
      CLEAVE_RT_RETURN_IF_ERROR(row->allReduce(value, ReduceKind::Sum));
      EXPECT_EQ(value[4], static_cast<float>(self / 2 * 4 + 1 + 2 * round));
      CLEAVE_RT_RETURN_IF_ERROR(column->allReduce(value, ReduceKind::Max));
      EXPECT_EQ(value[0], static_cast<float>(5 + 2 * round));
      std::vector<float> order(2, NAN), mine{static_cast<float>(self)};
      CLEAVE_RT_RETURN_IF_ERROR(column->allGather(mine, order));
      EXPECT_EQ(order[0], order[1] + 2);
    }
    return Status::success();
  });
  EXPECT_TRUE(status.ok()) << renderText(status.error());
}

TEST(LocalWorld, SmallMessagesMayFollowEachOtherAtOnce) {
  // Nobody waits at the end of a small message: a buffer changes at once, while others
  // may still read what it held. Large ones in between.
  for (int ranks : {2, 3, 8}) {
    const Status status = makeWorld(ranks)->run([&](World &world) -> Status {
      CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, world.group(everyone(ranks)));
      const auto self = static_cast<size_t>(world.rank()), all = static_cast<size_t>(ranks);
      std::mt19937 random(static_cast<unsigned>(self));
      size_t wrong = 0;
      for (size_t round = 0; round < 2000; ++round) {
        const size_t block = round % 50 == 0 ? 600 : 1 + round % (512 / all);
        const auto valueOf = [&](size_t rank) { return static_cast<float>(round + 7 * rank); };
        std::vector<float> data(block * all, valueOf(self)), gathered(block * all);
        std::vector<float> scattered(block);
        float sum = 0;
        for (size_t rank = 0; rank < all; ++rank)
          sum += valueOf(rank);
        if (random() % 64 == 0)
          arriveLate(random);
        CLEAVE_RT_RETURN_IF_ERROR(comm->reduceScatter(data, scattered, ReduceKind::Sum));
        CLEAVE_RT_RETURN_IF_ERROR(comm->allReduce(data, ReduceKind::Sum));
        wrong += std::ranges::count(scattered, sum) != static_cast<long>(block);
        wrong += std::ranges::count(data, sum) != static_cast<long>(data.size());
        std::ranges::fill(scattered, valueOf(self));
        CLEAVE_RT_RETURN_IF_ERROR(comm->allGather(scattered, gathered));
        std::ranges::fill(data, valueOf(self));
        std::ranges::fill(scattered, NAN);
        CLEAVE_RT_RETURN_IF_ERROR(comm->broadcast(data, static_cast<int>(round % all)));
        for (size_t i = 0; i < gathered.size(); ++i)
          wrong += gathered[i] != valueOf(i / block) || data[i] != valueOf(round % all);
      }
      EXPECT_EQ(wrong, 0u) << ranks;
      return Status::success();
    });
    EXPECT_TRUE(status.ok()) << renderText(status.error());
  }
}

TEST(LocalWorld, AMaximumWithANaNIsNaNWhereverItComesFrom) {
  for (int culprit : {0, 1, 2}) {
    const Status status = makeWorld(3)->run([&](World &world) -> Status {
      CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, world.group({0, 1, 2}));
      float value = world.rank() == culprit ? NAN : 1.0f;
      CLEAVE_RT_RETURN_IF_ERROR(comm->allReduce(std::span(&value, 1), ReduceKind::Max));
      EXPECT_TRUE(std::isnan(value));
      return Status::success();
    });
    EXPECT_TRUE(status.ok());
  }
}

TEST(LocalWorld, CountsMessages) {
  auto world = makeWorld(2);
  const Status status = world->run([&](World &rank) -> Status {
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, rank.group({0, 1}));
    std::vector<float> four(4, 1.0f), two(2, 1.0f);
    CLEAVE_RT_RETURN_IF_ERROR(comm->allReduce(four, ReduceKind::Sum));
    CLEAVE_RT_RETURN_IF_ERROR(comm->allReduce(two, ReduceKind::Sum));
    CLEAVE_RT_RETURN_IF_ERROR(comm->allGather(two, four));
    CLEAVE_RT_RETURN_IF_ERROR(comm->reduceScatter(four, two, ReduceKind::Sum));
    return comm->barrier();
  });
  ASSERT_TRUE(status.ok());
  for (int rank = 0; rank < 2; ++rank) {
    const Communicator *comm = *world->rank(rank).group({0, 1});
    EXPECT_EQ(comm->traffic(CollectiveKind::AllReduce).calls, 2u);
    EXPECT_EQ(comm->traffic(CollectiveKind::AllReduce).bytes, 24u);
    EXPECT_EQ(comm->traffic(CollectiveKind::AllGather).bytes, 16u);
    EXPECT_EQ(comm->traffic(CollectiveKind::ReduceScatter).bytes, 16u);
    EXPECT_EQ(comm->traffic(CollectiveKind::AllToAll).calls, 0u);
    EXPECT_EQ(comm->traffic(CollectiveKind::Barrier).calls, 1u);
  }
}

} // namespace

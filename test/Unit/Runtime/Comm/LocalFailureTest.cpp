// A failing rank takes all others down with its error, in no time, wherever
// they wait; nobody hangs and nobody touches a buffer that is gone.
#include "runtime/Comm/Local/LocalWorld.h"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <thread>

using namespace cleave::rt;

namespace {

std::unique_ptr<LocalWorld> makeWorld(int ranks, const std::vector<std::vector<int>> &groups = {}) {
  auto world = LocalWorld::create({ranks, groups, {}});
  EXPECT_TRUE(world.ok());
  return std::move(*world);
}

TEST(LocalFailure, TheFirstErrorReachesEveryRank) {
  std::mt19937 random(17);
  for (int round = 0; round < 200; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 7);
    const int culprit = static_cast<int>(random() % ranks);
    const int failsAt = static_cast<int>(random() % 6);
    const unsigned delay = random() % 100;
    std::vector<int> all(ranks);
    for (int rank = 0; rank < ranks; ++rank)
      all[rank] = rank;
    std::vector<Status> seen(ranks);
    const Status status = makeWorld(ranks)->run([&](World &world) -> Status {
      CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, world.group(all));
      auto work = [&]() -> Status {
        for (int call = 0; call < 8; ++call) {
          // Freed as soon as this rank returns: others must be done with it.
          std::vector<float> buffer(round % 2 ? 20000 : 200, 1.0f);
          if (world.rank() == culprit && call == failsAt) {
            std::this_thread::sleep_for(std::chrono::microseconds(delay));
            return runError("data.broken", "rank " + std::to_string(culprit));
          }
          CLEAVE_RT_RETURN_IF_ERROR(comm->allReduce(buffer, ReduceKind::Sum));
          EXPECT_EQ(buffer.back(), static_cast<float>(ranks));
        }
        return Status::success();
      };
      return seen[world.rank()] = work();
    });
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, "data.broken");
    EXPECT_EQ(status.error().exitCode, ExitCode::Run);
    EXPECT_EQ(status.error().notes.back().message,
              "the first failure was on rank " + std::to_string(culprit));
    for (const Status &one : seen) {
      ASSERT_FALSE(one.ok());
      EXPECT_EQ(one.error().message, "rank " + std::to_string(culprit));
    }
  }
}

TEST(LocalFailure, OtherGroupsAreWokenToo) {
  // Ranks 2 and 3 wait for each other's group while rank 0 fails elsewhere.
  const Status status = makeWorld(4, {{0, 1}, {1, 2, 3}})->run([&](World &world) -> Status {
    if (world.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return runError("io", "rank 0");
    }
    const std::vector<int> members =
        world.rank() == 1 ? std::vector<int>{0, 1} : std::vector<int>{1, 2, 3};
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, world.group(members));
    const Status waited = comm->barrier();
    EXPECT_EQ(waited.error().message, "rank 0");
    return waited;
  });
  EXPECT_EQ(status.error().kind, "io");
}

TEST(LocalFailure, AbortFromOutsideACollectiveEndsTheRun) {
  const Status status = makeWorld(3)->run([&](World &world) -> Status {
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, world.group({0, 1, 2}));
    if (world.rank() == 1) {
      world.abort(runError("runtime.nan", "a NaN"));
      EXPECT_EQ(world.firstError().error().kind, "runtime.nan");
      EXPECT_EQ(comm->barrier().error().kind, "runtime.nan");
      return Status::success();
    }
    return comm->barrier();
  });
  EXPECT_EQ(status.error().kind, "runtime.nan");
}

TEST(LocalFailure, ExceptionsAreErrors) {
  const Status status = makeWorld(2)->run([&](World &world) -> Status {
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, world.group({0, 1}));
    if (world.rank() == 1)
      throw std::runtime_error("out of luck");
    return comm->barrier();
  });
  EXPECT_EQ(status.error().kind, "internal");
  EXPECT_NE(status.error().message.find("out of luck"), std::string::npos);
}

TEST(LocalFailure, CallsThatDoNotMatchAreNamed) {
  const Status sizes = makeWorld(2)->run([&](World &world) -> Status {
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, world.group({0, 1}));
    std::vector<float> buffer(4 + world.rank(), 1.0f);
    const Status status = comm->allReduce(buffer, ReduceKind::Sum);
    EXPECT_EQ(buffer, std::vector<float>(4 + world.rank(), 1.0f));
    return status;
  });
  EXPECT_EQ(sizes.error().kind, "comm.mismatch");
  EXPECT_EQ(sizes.error().exitCode, ExitCode::Internal);
  const Status kinds = makeWorld(2)->run([&](World &world) -> Status {
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, world.group({0, 1}));
    std::vector<float> buffer(4);
    return world.rank() ? comm->broadcast(buffer, 0) : comm->allReduce(buffer, ReduceKind::Sum);
  });
  EXPECT_EQ(kinds.error().kind, "comm.mismatch");
  EXPECT_NE(kinds.error().message.find("all_reduce of 4 floats"), std::string::npos);
  // A small message of one rank, a large one of another, and one of several parts.
  for (size_t large : {size_t{512}, size_t{513}, size_t{5000}})
    for (bool inParts : {false, true}) {
      const Status mixed = makeWorld(3)->run([&](World &world) -> Status {
        CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, world.group({0, 1, 2}));
        std::vector<float> buffer(world.rank() == 1 ? large : 4, 1.0f);
        const MessagePart parts[] = {{buffer, buffer}};
        const MessagePart two[] = {{std::span(buffer).first(2), std::span(buffer).first(2)},
                                   {std::span(buffer).last(2), std::span(buffer).last(2)}};
        const Status status =
            world.rank() != 1 ? comm->allReduce(buffer, ReduceKind::Sum)
            : inParts         ? comm->exchange(CollectiveKind::AllReduce, ReduceKind::Sum, two)
                              : comm->exchange(CollectiveKind::AllReduce, ReduceKind::Sum, parts);
        EXPECT_EQ(buffer, std::vector<float>(buffer.size(), 1.0f));
        return status;
      });
      EXPECT_EQ(mixed.error().kind, "comm.mismatch");
    }
  const Status blocks = makeWorld(3)->run([&](World &world) -> Status {
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, world.group({0, 1, 2}));
    std::vector<float> send(7), receive(2);
    return comm->reduceScatter(send, receive, ReduceKind::Sum);
  });
  EXPECT_EQ(blocks.error().kind, "comm.mismatch");
}

TEST(LocalFailure, ARankThatEndsEarlyLeavesNobodyWaiting) {
  const Status status = makeWorld(3)->run([&](World &world) -> Status {
    CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * comm, world.group({0, 1, 2}));
    CLEAVE_RT_RETURN_IF_ERROR(comm->barrier());
    return world.rank() == 2 ? Status::success() : comm->barrier();
  });
  EXPECT_EQ(status.error().kind, "comm.rank_left");
}

TEST(LocalFailure, GroupsAreChecked) {
  EXPECT_EQ(LocalWorld::create({0, {}, {}}).error().kind, "comm.bad_group");
  EXPECT_EQ(LocalWorld::create({2, {{0, 2}}, {}}).error().kind, "comm.bad_group");
  EXPECT_EQ(LocalWorld::create({2, {{1, 1}}, {}}).error().kind, "comm.bad_group");
  EXPECT_EQ(LocalWorld::create({2, {{}}, {}}).error().kind, "comm.bad_group");
  auto world = makeWorld(2, {{1, 0}, {1}});
  EXPECT_TRUE(world->rank(0).group({1, 0}).ok());
  EXPECT_EQ(world->rank(0).group({1}).error().kind, "comm.unknown_group");
  EXPECT_TRUE(world->rank(1).group({1}).ok());
}

} // namespace

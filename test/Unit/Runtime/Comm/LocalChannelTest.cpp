// Channels between threads: messages arrive whole and in order with any room, ends
// wait exactly where they must, and nobody waits for ever.
#include "Traffic.h"

#include "runtime/Comm/Local/LocalWorld.h"

#include <gtest/gtest.h>

#include <atomic>

using namespace cleave::rt;

namespace {

constexpr ChannelKey there{0, 1, TransferKind::Activation}, back{1, 0, TransferKind::Gradient};

std::unique_ptr<LocalWorld> makeWorld(int ranks, std::vector<ChannelPlan> channels) {
  auto world = LocalWorld::create({ranks, {}, std::move(channels)});
  EXPECT_TRUE(world.ok()) << renderText(world.error());
  return std::move(*world);
}

Status sendFloat(World &world, const ChannelKey &key, float value, std::string_view purpose = "") {
  CLEAVE_RT_ASSIGN_OR_RETURN(Channel * channel, world.channel(key));
  const std::span<const float> piece(&value, 1);
  return channel->send({&piece, 1}, purpose);
}

StatusOr<float> receiveFloat(World &world, const ChannelKey &key) {
  CLEAVE_RT_ASSIGN_OR_RETURN(Channel * channel, world.channel(key));
  float value = NAN;
  const std::span<float> piece(&value, 1);
  CLEAVE_RT_RETURN_IF_ERROR(channel->receive({&piece, 1}, ""));
  return value;
}

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

TEST(LocalChannel, RandomTrafficArrivesWholeAndInOrder) {
  for (int ranks : {2, 3, 5})
    for (int buffers : {1, 2, 7}) {
      const std::vector<Letter> letters =
          randomLetters(ranks, 300, static_cast<unsigned>(10 * ranks + buffers));
      auto world = makeWorld(ranks, channelsOf(ranks, buffers));
      std::vector<int> wrong(static_cast<size_t>(ranks), 0);
      const Status status = world->run([&](World &self) {
        return carryOut(self, letters, wrong[static_cast<size_t>(self.rank())]);
      });
      ASSERT_TRUE(status.ok()) << renderText(status.error());
      EXPECT_EQ(wrong, std::vector<int>(static_cast<size_t>(ranks), 0));
      uint64_t calls = 0, bytes = 0;
      for (const Letter &letter : letters) {
        calls += letter.key == there;
        bytes += letter.key == there ? 4 * letter.contents().size() : 0;
      }
      for (int rank : {0, 1}) {
        const TrafficCount traffic = (*world->rank(rank).channel(there))->traffic();
        EXPECT_EQ(traffic.calls, calls);
        EXPECT_EQ(traffic.bytes, bytes);
      }
    }
}

TEST(LocalChannel, ASendWaitsWhileTheChannelIsFull) {
  std::atomic<int> sent{0};
  const Status status = makeWorld(2, {{there, 3}})->run([&](World &world) -> Status {
    if (world.rank() == 0) {
      for (int i = 0; i < 5; ++i) {
        CLEAVE_RT_RETURN_IF_ERROR(sendFloat(world, there, static_cast<float>(i)));
        ++sent;
      }
      return {};
    }
    // The sender needs nobody for the first three, and goes no further.
    while (sent < 3)
      std::this_thread::yield();
    pause();
    EXPECT_EQ(sent, 3);
    for (int i = 0; i < 5; ++i) {
      CLEAVE_RT_ASSIGN_OR_RETURN(const float value, receiveFloat(world, there));
      EXPECT_EQ(value, static_cast<float>(i));
    }
    return {};
  });
  EXPECT_TRUE(status.ok()) << renderText(status.error());
}

TEST(LocalChannel, AReceiverWaitsForWhatComesLater) {
  const Status status = makeWorld(2, {{there, 1}})->run([&](World &world) -> Status {
    for (int i = 0; i < 3; ++i) {
      if (world.rank() == 0) {
        pause();
        CLEAVE_RT_RETURN_IF_ERROR(sendFloat(world, there, static_cast<float>(i)));
        continue;
      }
      CLEAVE_RT_ASSIGN_OR_RETURN(const float value, receiveFloat(world, there));
      EXPECT_EQ(value, static_cast<float>(i));
    }
    return {};
  });
  EXPECT_TRUE(status.ok()) << renderText(status.error());
}

TEST(LocalChannel, NeighboursMaySendToEachOtherAtOnce) {
  const ChannelKey here{1, 0, TransferKind::Activation};
  const Status status = makeWorld(2, {{there, 1}, {here, 1}})->run([&](World &world) -> Status {
    for (int i = 0; i < 1000; ++i) {
      const bool isFirst = world.rank() == 0;
      CLEAVE_RT_RETURN_IF_ERROR(sendFloat(world, isFirst ? there : here, static_cast<float>(i)));
      CLEAVE_RT_ASSIGN_OR_RETURN(const float value, receiveFloat(world, isFirst ? here : there));
      EXPECT_EQ(value, static_cast<float>(i));
    }
    return {};
  });
  EXPECT_TRUE(status.ok()) << renderText(status.error());
}

TEST(LocalChannel, AnErrorElsewhereWakesBothEnds) {
  const ChannelKey empty{2, 1, TransferKind::Activation};
  for (int round = 0; round < 50; ++round) {
    auto world = makeWorld(3, {{there, 1}, {empty, 1}});
    const Status status = world->run([&](World &self) -> Status {
      if (self.rank() == 2) {
        std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
        return runError("data.broken", "rank 2");
      }
      Status waited;
      // Nobody ever receives from rank 0.
      while (waited.ok())
        waited = self.rank() == 0 ? sendFloat(self, there, 1) : receiveFloat(self, empty).status();
      EXPECT_EQ(waited.error().message, "rank 2");
      return waited;
    });
    EXPECT_EQ(status.error().kind, "data.broken");
  }
}

TEST(LocalChannel, ARankThatEndedLeavesWhatItSentAndNobodyWaiting) {
  const Status status = makeWorld(2, {{there, 2}})->run([&](World &world) -> Status {
    if (world.rank() == 0)
      return sendFloat(world, there, 1);
    pause();
    CLEAVE_RT_ASSIGN_OR_RETURN(const float value, receiveFloat(world, there));
    EXPECT_EQ(value, 1);
    return receiveFloat(world, there).status();
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, "comm.rank_left");
  EXPECT_NE(status.error().message.find("receive of activations from rank 0"), std::string::npos)
      << status.error().message;
  const Status full = makeWorld(2, {{there, 1}})->run([&](World &world) -> Status {
    if (world.rank() == 1)
      return {};
    CLEAVE_RT_RETURN_IF_ERROR(sendFloat(world, there, 1));
    return sendFloat(world, there, 1);
  });
  EXPECT_EQ(full.error().kind, "comm.rank_left");
}

TEST(LocalChannel, MessagesThatDoNotFitAreNamed) {
  for (bool receiverIsEarly : {false, true}) {
    const Status status = makeWorld(2, {{there, 1}})->run([&](World &world) -> Status {
      if ((world.rank() == 0) == receiverIsEarly)
        pause();
      if (world.rank() == 0)
        return sendFloat(world, there, 1);
      CLEAVE_RT_ASSIGN_OR_RETURN(Channel * channel, world.channel(there));
      std::vector<float> two(2);
      const std::span<float> piece(two);
      return channel->receive({&piece, 1}, "");
    });
    EXPECT_EQ(status.error().kind, "comm.mismatch");
    EXPECT_NE(status.error().message.find("1 floats where 2"), std::string::npos);
  }
  const Status wrongEnd = makeWorld(2, {{there, 1}})->run([&](World &world) {
    return receiveFloat(world, there).status();
  });
  EXPECT_EQ(wrongEnd.error().kind, "comm.mismatch");
}

TEST(LocalChannel, ChannelsAreChecked) {
  auto kindOf = [](std::vector<ChannelPlan> channels) {
    auto world = LocalWorld::create({2, {}, std::move(channels)});
    return world.ok() ? std::string("made") : world.error().kind;
  };
  EXPECT_EQ(kindOf({{there, 1}, {back, 1}}), "made");
  EXPECT_EQ(kindOf({{there, 1}, {there, 1}}), "comm.bad_channel");
  EXPECT_EQ(kindOf({{there, 0}}), "comm.bad_channel");
  EXPECT_EQ(kindOf({{{0, 2}, 1}}), "comm.bad_channel");
  EXPECT_EQ(kindOf({{{1, 1}, 1}}), "comm.bad_channel");
  auto world = makeWorld(3, {{there, 1}});
  EXPECT_TRUE(world->rank(0).channel(there).ok());
  EXPECT_EQ(world->rank(2).channel(there).error().kind, "comm.unknown_channel");
  EXPECT_EQ(world->rank(0).channel(back).error().kind, "comm.unknown_channel");
}

} // namespace

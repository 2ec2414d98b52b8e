// Collectives and channels of ranks in several processes against plain loops, and what becomes
// of a run whose ranks fail. Started by a launcher of MPI or TCP, by the tests in this folder:
//
//   process-collectives RANKS_EACH MODE
//
// MODE: `numbers`, `traffic`, or a way to fail.
#include "../Unit/Runtime/Comm/Traffic.h"

#include "runtime/Train/Launch.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include <unistd.h>

using namespace cleave::rt;

namespace {

std::atomic<int> wrong{0};

void expect(bool holds, const Communicator &group, const char *what, size_t size) {
  if (holds)
    return;
  ++wrong;
  std::fprintf(stderr, "rank %d of %d: wrong %s of %zu floats\n",
               group.members()[static_cast<size_t>(group.rank())], group.size(), what, size);
}

/// Below and above the size that is sent directly; several chunks, and no multiple
/// of anything.
const size_t sizes[] = {0, 1, 3, 17, 257, 5003, 100003};

Status checkReductions(Communicator &group, size_t size, ReduceKind kind) {
  const auto ranks = static_cast<size_t>(group.size()), self = static_cast<size_t>(group.rank());
  const Buffers all = randomBuffers(ranks, size * ranks, static_cast<unsigned>(size));
  const std::vector<float> sum = reducedInOrder(all, kind);
  std::vector<float> whole = all[self];
  CLEAVE_RT_RETURN_IF_ERROR(group.allReduce(whole, kind));
  expect(sameBits(whole, sum), group, "all_reduce", whole.size());
  const std::span<const float> mine = std::span(sum).subspan(self * size, size);
  for (bool inPlace : {false, true}) {
    std::vector<float> send = all[self], out(size, NAN);
    std::span<float> receive =
        inPlace ? std::span(send).subspan(self * size, size) : std::span(out);
    CLEAVE_RT_RETURN_IF_ERROR(group.reduceScatter(send, receive, kind));
    expect(sameBits(receive, mine), group, "reduce_scatter", send.size());
  }
  return {};
}

Status checkMoves(Communicator &group, size_t block) {
  const auto ranks = static_cast<size_t>(group.size()), self = static_cast<size_t>(group.rank());
  const Buffers all = randomBuffers(ranks, block * ranks, static_cast<unsigned>(block) + 1);
  const std::span<const float> mine(all[self]);
  std::vector<float> expected(block * ranks), out(block * ranks, NAN);
  for (size_t r = 0; r < ranks; ++r)
    std::copy_n(all[r].begin(), block, expected.begin() + static_cast<std::ptrdiff_t>(r * block));
  CLEAVE_RT_RETURN_IF_ERROR(group.allGather(mine.first(block), out));
  expect(sameBits(out, expected), group, "all_gather", out.size());
  std::vector<float> gathered(block * ranks, NAN);
  std::copy_n(mine.begin(), block, gathered.begin() + static_cast<std::ptrdiff_t>(self * block));
  CLEAVE_RT_RETURN_IF_ERROR(
      group.allGather(std::span(gathered).subspan(self * block, block), gathered));
  expect(sameBits(gathered, expected), group, "all_gather in place", out.size());
  CLEAVE_RT_RETURN_IF_ERROR(group.allToAll(mine, out));
  for (size_t r = 0; r < ranks; ++r)
    std::copy_n(all[r].begin() + static_cast<std::ptrdiff_t>(self * block), block,
                expected.begin() + static_cast<std::ptrdiff_t>(r * block));
  expect(sameBits(out, expected), group, "all_to_all", out.size());
  for (size_t root = 0; root < ranks; ++root) {
    std::vector<float> data = all[self];
    CLEAVE_RT_RETURN_IF_ERROR(group.broadcast(data, static_cast<int>(root)));
    expect(sameBits(data, all[root]), group, "broadcast", data.size());
  }
  return group.barrier();
}

/// Messages of several parts, some empty: with large ones among them, and small ones alone.
Status checkParts(Communicator &group) {
  const std::pair<std::span<const size_t>, ReduceKind> messages[] = {
      {std::span(sizes), ReduceKind::Sum}, {std::span(sizes).first(5), ReduceKind::Max}};
  for (const auto &[blocks, kind] : messages) {
    CLEAVE_RT_ASSIGN_OR_RETURN(const bool isRight, exchangesInParts(group, blocks, kind));
    expect(isRight, group, "message in parts", blocks.size());
  }
  return {};
}

/// All ranks; every second one; pairs, far and near.
std::vector<std::vector<int>> groupsOf(int ranks) {
  std::vector<std::vector<int>> groups{everyone(ranks), {}, {}};
  for (int rank = 0; rank < ranks; ++rank)
    groups[static_cast<size_t>(1 + rank % 2)].push_back(rank);
  for (int rank = 0; rank < ranks / 2; ++rank)
    groups.push_back({rank, rank + ranks / 2});
  for (int rank = 0; rank + 1 < ranks; rank += 2)
    groups.push_back({rank, rank + 1});
  // All but the last, so that the processes' shares differ.
  if (ranks > 2)
    groups.push_back(everyone(ranks - 1));
  return groups;
}

Status checkNumbers(World &world) {
  for (int round = 0; round < 2; ++round)
    for (const std::vector<int> &members : groupsOf(world.size())) {
      if (std::ranges::find(members, world.rank()) == members.end())
        continue;
      CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * group, world.group(members));
      for (size_t size : sizes) {
        CLEAVE_RT_RETURN_IF_ERROR(checkReductions(*group, size, ReduceKind::Sum));
        CLEAVE_RT_RETURN_IF_ERROR(checkMoves(*group, size));
      }
      CLEAVE_RT_RETURN_IF_ERROR(checkReductions(*group, 5003, ReduceKind::Max));
      CLEAVE_RT_RETURN_IF_ERROR(checkParts(*group));
    }
  return {};
}

/// Messages from every rank to every other.
Status checkTraffic(World &world) {
  int changed = 0;
  const Status status = carryOut(world, randomLetters(world.size(), 400, 7), changed);
  if (changed > 0)
    std::fprintf(stderr, "rank %d: %d messages arrived changed\n", world.rank(), changed);
  wrong += changed;
  return status;
}

/// The last rank fails while the first waits for it: at an empty channel, or at one
/// that is full.
Status checkChannelFailure(World &world, const std::string &mode) {
  const int last = world.size() - 1;
  CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * group, world.group(everyone(world.size())));
  world.enterStep(7);
  CLEAVE_RT_RETURN_IF_ERROR(group->barrier());
  if (world.rank() == last) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    if (mode == "channel-error")
      return runError("data.broken", "no more samples");
    ::_exit(9);
  }
  // Large enough that no library takes it before it is received.
  std::vector<float> buffer(1 << 20, 1);
  Status status;
  while (status.ok() && world.rank() == 0) {
    CLEAVE_RT_ASSIGN_OR_RETURN(
        Channel * channel,
        world.channel(mode == "channel-full" ? ChannelKey{0, last} : ChannelKey{last, 0}));
    const std::span<float> piece(buffer);
    const std::span<const float> sent(buffer);
    status = channel->sends() ? channel->send({&sent, 1}, "micro-batch 2")
                              : channel->receive({&piece, 1}, "micro-batch 2");
  }
  return status.ok() ? group->barrier() : status;
}

/// A hundred sums, in which the last rank fails after a few.
Status checkFailure(World &world, const std::string &mode) {
  CLEAVE_RT_ASSIGN_OR_RETURN(Communicator * group, world.group(everyone(world.size())));
  group->setPurpose("gradients");
  const bool isCulprit = world.rank() == world.size() - 1;
  for (int step = 1; step <= 100; ++step) {
    world.enterStep(static_cast<uint64_t>(step));
    std::vector<float> buffer(100000, 1);
    if (isCulprit && step == 7) {
      if (mode == "error")
        return runError("data.broken", "no more samples");
      if (mode == "throw")
        throw std::runtime_error("out of luck");
      if (mode == "leave")
        return {};
      if (mode == "mismatch")
        buffer.resize(99999);
      if (mode == "busy") // an error elsewhere finds this rank computing
        std::this_thread::sleep_for(std::chrono::seconds(60));
    }
    if (mode == "busy" && world.rank() == 0 && step == 7)
      return runError("data.broken", "no more samples");
    CLEAVE_RT_RETURN_IF_ERROR(group->allReduce(buffer, ReduceKind::Sum));
  }
  return {};
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  const std::string mode = argv[2];
  const auto variable = [](const char *name) -> const char * { return std::getenv(name); };
  const std::optional<Launch> launch = detectLaunch(variable);
  if (!launch)
    return 2;
  TeamOptions options;
  options.silence = std::chrono::seconds(3);
  options.show = [](const Error &error) { std::fputs(renderText(error).c_str(), stderr); };
  auto team = joinTeam(*launch, {}, {}, variable, options);
  if (!team.ok()) {
    std::fputs(renderText(team.error()).c_str(), stderr);
    return static_cast<int>(team.error().exitCode);
  }
  const int ranks = (*team)->processes() * std::atoi(argv[1]);
  Status status;
  {
    auto world = (*team)->createWorld({ranks, groupsOf(ranks), channelsOf(ranks, 2)});
    status = world.ok() ? (*world)->run([&](World &self) {
      if (mode == "traffic")
        return checkTraffic(self);
      if (mode.starts_with("channel"))
        return checkChannelFailure(self, mode);
      return mode == "numbers" ? checkNumbers(self) : checkFailure(self, mode);
    })
                        : world.status();
  }
  if (status.ok())
    status = (*team)->finish();
  if (status.ok())
    return wrong > 0 ? 1 : 0;
  const Error failure = (*team)->report(status.error());
  (*team)->endFailed();
  std::fflush(nullptr);
  ::_exit(static_cast<int>(failure.exitCode));
}

// What the executor asks of a transport: collectives among a group of ranks,
// channels from one rank to another, and a way for a failing rank to take all others down with its
// error instead of leaving them to wait.
//
// A `World` is one rank's view of the run; a `Communicator` is that rank's
// place in one group, an ordered list of ranks fixed when the world is made.
// Every member of a group makes the same calls in the same order. Buffers are
// 32-bit floats. Reductions run in the order of the group's ranks, whatever the
// time of arrival, so results are bitwise equal on all ranks and from run to
// run; a transport that can't promise that says so in its own header.
//
// A call that fails returns the first error of the whole run: on the rank where
// it arose and on all others.
#pragma once

#include "runtime/Base/FunctionRef.h"
#include "runtime/Base/Status.h"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cleave::rt {

enum class ReduceKind { Sum, Max };

enum class CollectiveKind { AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Barrier };
inline constexpr size_t collectiveKinds = 6;

/// "all_reduce", "all_gather", …
const char *nameOf(CollectiveKind kind);

/// Calls and message bytes of one kind of collective on one rank. A message is
/// what the operation is about, not what a transport moves: the whole buffer
/// for all_reduce and broadcast, the gathered one for all_gather, the sent one
/// for reduce_scatter and all_to_all.
struct TrafficCount {
  uint64_t calls = 0;
  uint64_t bytes = 0;
};

/// One of several buffers that go as one message: what a call for it alone would be given.
/// For all_reduce both are the same.
struct MessagePart {
  std::span<const float> send;
  std::span<float> receive;
};

class Communicator {
public:
  Communicator(std::vector<int> members, int rank) : memberRanks(std::move(members)), self(rank) {}
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;
  virtual ~Communicator() = default;

  /// This rank's position in the group, and the group's size.
  int rank() const { return self; }
  int size() const { return static_cast<int>(memberRanks.size()); }
  /// The ranks of the world in group order.
  const std::vector<int> &members() const { return memberRanks; }

  /// In place. A maximum with a NaN is NaN.
  virtual Status allReduce(std::span<float> data, ReduceKind kind) = 0;
  /// `receive` holds the blocks of all ranks in order. `send` may be this
  /// rank's block of `receive`.
  virtual Status allGather(std::span<const float> send, std::span<float> receive) = 0;
  /// `send` holds one block per rank; `receive` gets this rank's block, reduced.
  /// `receive` may be this rank's block of `send`.
  virtual Status reduceScatter(std::span<const float> send, std::span<float> receive,
                               ReduceKind kind) = 0;
  /// Block q of `send` goes to rank q; block q of `receive` comes from it. The
  /// buffers don't overlap.
  virtual Status allToAll(std::span<const float> send, std::span<float> receive) = 0;
  /// all_reduce, all_gather or reduce_scatter of several buffers, none of which meets
  /// another, as one message: what calls for each alone would do.
  virtual Status exchange(CollectiveKind kind, ReduceKind reduction,
                          std::span<const MessagePart> parts) = 0;
  /// Copies `data` of group rank `root` to all others.
  virtual Status broadcast(std::span<float> data, int root) = 0;
  virtual Status barrier() = 0;

  const TrafficCount &traffic(CollectiveKind kind) const {
    return counts[static_cast<size_t>(kind)];
  }

  /// What the calls from now on are for, as messages about a lost rank say it.
  /// The text must live until it is replaced.
  void setPurpose(std::string_view text) { purposeText = text; }

protected:
  std::string_view purpose() const { return purposeText; }
  void count(CollectiveKind kind, size_t floats) {
    TrafficCount &entry = counts[static_cast<size_t>(kind)];
    ++entry.calls;
    entry.bytes += floats * sizeof(float);
  }

private:
  std::vector<int> memberRanks;
  int self;
  std::array<TrafficCount, collectiveKinds> counts;
  std::string_view purposeText;
};

/// What a channel is for. Two ranks have a channel for each.
enum class TransferKind { Activation, Gradient };

/// One direction of one kind of transfers between two ranks.
struct ChannelKey {
  int from = 0, to = 0;
  TransferKind kind = TransferKind::Activation;
  auto operator<=>(const ChannelKey &) const = default;
};

/// A channel to be made. It holds at least `buffers` messages before a send waits.
struct ChannelPlan {
  ChannelKey key;
  int buffers = 1;
};

/// One end of a channel. Messages arrive whole and in the order in which they were
/// sent; a message is several pieces of floats, cut alike at both ends. What is sent is
/// free again when `send` returns, which is before it is received unless the channel
/// is full.
class Channel {
public:
  /// `isSender`: the end of the rank that sends.
  Channel(ChannelKey key, bool isSender) : ownKey(key), isSender(isSender) {}
  Channel(const Channel &) = delete;
  Channel &operator=(const Channel &) = delete;
  virtual ~Channel() = default;

  const ChannelKey &key() const { return ownKey; }
  bool sends() const { return isSender; }

  /// Both return the first error of the run where it ends before they are done, and
  /// `comm.mismatch` at an end that is not for that or for a message of another
  /// length than is received. `purpose` is what the message is of, as messages about
  /// a lost rank say it: "micro-batch 2".
  virtual Status send(std::span<const std::span<const float>> pieces, std::string_view purpose) = 0;
  virtual Status receive(std::span<const std::span<float>> pieces, std::string_view purpose) = 0;

  /// Messages of this end.
  const TrafficCount &traffic() const { return counts; }

protected:
  void count(size_t floats) {
    ++counts.calls;
    counts.bytes += floats * sizeof(float);
  }

private:
  const ChannelKey ownKey;
  const bool isSender;
  TrafficCount counts;
};

/// The threads of a rank that talk with other ranks: the one that runs its commands, and
/// one for exchanges beside. Each has communicators of its own, so that the calls of one
/// communicator come in one order.
enum class Lane { Main, Beside };
inline constexpr size_t lanes = 2;

/// Who talks with whom in a run. Ranks are 0 to `ranks` - 1. Groups are ordered lists
/// of ranks, each rank at most once in a list; the list of all ranks is always there on the
/// main lane. No two channels have one key.
struct WorldPlan {
  int ranks = 1;
  std::vector<std::vector<int>> groups;
  std::vector<ChannelPlan> channels;
  /// Those of exchanges beside; a list may be in both.
  std::vector<std::vector<int>> groupsBeside = {};
};

class World {
public:
  World() = default;
  World(const World &) = delete;
  World &operator=(const World &) = delete;
  virtual ~World() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// True for the lowest rank of each process: the one that does what a process
  /// does once.
  virtual bool leadsProcess() const = 0;
  /// True if every rank is a thread of this process.
  virtual bool isOneProcess() const = 0;
  /// Tells the step that this rank is in, for messages about lost ranks.
  virtual void enterStep(uint64_t step) = 0;
  /// Tells that this rank waits for exchanges beside, or goes on.
  virtual void awaitBeside(bool waits) = 0;
  /// This rank's place in a group the world was made with. `comm.unknown_group`
  /// for any other list, or one without this rank. The pointer lives as long as
  /// the world, and only one thread calls it.
  virtual StatusOr<Communicator *> group(const std::vector<int> &members,
                                         Lane lane = Lane::Main) = 0;
  /// This rank's end of a channel the world was made with; `comm.unknown_channel`
  /// for any other. The pointer lives as long as the world.
  virtual StatusOr<Channel *> channel(const ChannelKey &key) = 0;
  /// Ends the run with `error`, unless another rank's came first: every wait of
  /// every rank, now and later, returns the first error.
  virtual void abort(Error error) = 0;
  /// The first error of the run, or success.
  virtual Status firstError() const = 0;
};

/// The ranks of a world that are threads of this process.
class HostedRanks {
public:
  virtual ~HostedRanks() = default;
  /// Runs `body` once per rank here, the lowest on the calling thread, and returns
  /// the first error of the whole run when all have ended. A body's error or
  /// exception ends all ranks; a body that ends early while another rank waits
  /// for it in a collective is `comm.rank_left`. May be called once.
  virtual Status run(FunctionRef<Status(World &)> body) = 0;
  /// The view of one rank here, for traffic counts after the run.
  virtual World &rank(int rank) = 0;
};

/// "activations", "gradients".
inline const char *nameOf(TransferKind kind) {
  return kind == TransferKind::Activation ? "activations" : "gradients";
}

inline const char *nameOf(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllReduce:
    return "all_reduce";
  case CollectiveKind::AllGather:
    return "all_gather";
  case CollectiveKind::ReduceScatter:
    return "reduce_scatter";
  case CollectiveKind::AllToAll:
    return "all_to_all";
  case CollectiveKind::Broadcast:
    return "broadcast";
  case CollectiveKind::Barrier:
    return "barrier";
  }
  return "unknown";
}

} // namespace cleave::rt

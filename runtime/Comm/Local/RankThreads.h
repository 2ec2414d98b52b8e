// The ranks that are threads of this process: their views of the world, the first
// error of the run as they see it, and the threads. Which groups there are, and
// what another process has to hear of an error, is for the owner. Internal to
// Comm.
#pragma once

#include "runtime/Base/FunctionRef.h"
#include "runtime/Comm/Communicator.h"
#include "runtime/Comm/Local/LocalGroup.h"
#include "runtime/Comm/Local/RankChannel.h"

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace cleave::rt {

/// Where a rank is, readable by other threads at any time.
class RankPosition {
public:
  /// 0 before the first step.
  std::atomic<uint64_t> step{0};
  /// The rank's body has returned.
  std::atomic<bool> left{false};
  /// The rank waits for what runs beside.
  std::atomic<bool> awaiting{false};

  /// `what`: a text that lives on.
  void begin(Lane lane, const char *what, std::string_view purpose);
  void end(Lane lane);
  /// Collectives and transfers begun and ended.
  uint64_t progress() const;
  /// Whether the rank is in a collective or a transfer, which may wait for others.
  bool isWaiting() const;
  /// The collective or transfer in progress, or the last one: "all_reduce of
  /// layers.0/mlp.down", "send of activations to rank 3, micro-batch 2". Empty
  /// before the first. That of the lane that the rank waits for.
  std::string collectiveText() const;

private:
  struct Place {
    /// Counts that only the lane's thread changes.
    std::atomic<uint64_t> begun{0}, ended{0};
    /// Changes without the mutex where the purpose stays.
    std::atomic<const char *> collective{nullptr};
    std::string purpose;
  };

  mutable std::mutex mutex; // of purposes
  std::array<Place, lanes> places;
};

/// The ranks of a process and all that connects them.
struct RanksHere {
  /// `first` … `first` + `count` - 1 of `ranks`.
  int ranks = 1, first = 0, count = 1;
  /// All with one of them, by lane.
  std::array<std::vector<std::unique_ptr<LocalGroup>>, lanes> groups;
  std::vector<std::unique_ptr<RankChannel>> channels;
};

class RankThreads {
public:
  /// Told of the error of a rank here; must call `end`, at once or later, and
  /// return after that. Default: `end` with a note of the rank.
  using OnError = std::function<void(int rank, Error error)>;

  explicit RankThreads(RanksHere here, OnError onError = {});
  ~RankThreads();

  /// Runs `body` once per rank, the first on the calling thread; the first error.
  Status run(FunctionRef<Status(World &)> body);
  World &rank(int rank);
  int first() const { return here.first; }
  int count() const { return static_cast<int>(views.size()); }
  const RankPosition &position(int rank) const;

  /// Ends the run here with `error`, unless it has ended: wakes all ranks.
  void end(Error error);
  Status firstError() const;

private:
  class HostedRank;
  class GroupCommunicator;
  class ChannelEnd;

  void fail(int rank, Error error);
  void runRank(int rank, FunctionRef<Status(World &)> body);
  void leave(int rank);
  void breakGroups(FunctionRef<bool(const LocalGroup &)> which);

  /// What a call that broke off returns. `lost` says what was waited for where no
  /// error explains it.
  Status endOf(int rank, const std::string &lost);

  const RanksHere here;
  std::vector<std::unique_ptr<HostedRank>> views;
  OnError onError;
  mutable std::mutex mutex;
  Status failure; // guarded by mutex
};

/// `ranks` in order.
std::vector<int> everyRank(int ranks);

/// By lane: the plan's groups, each once, on the main lane behind the list of all ranks.
/// `comm.bad_group` for an empty list, a rank twice in one, or one that there is not.
StatusOr<std::array<std::vector<std::vector<int>>, lanes>> checkedGroups(const WorldPlan &plan);

/// `comm.bad_channel` for a channel of a rank that there is not, from a rank to
/// itself, without room, or there twice.
Status checkChannels(const WorldPlan &plan);

} // namespace cleave::rt

// Runs a program on one rank: allocates its memory once, resolves every command
// to addresses, kernels, compiled products and communicators, and then executes
// entries command by command, in order. Nothing is looked up, allocated or
// checked again while running.
//
// An executor belongs to the thread that runs it (with its pool) and knows of
// other ranks only through communicators. Where the program has buckets, a second
// thread runs these, in the order in which commands start them. It is no scheduler:
// what overlaps and what waits was decided by the compiler.
#pragma once

#include "runtime/Device/CPU/PickedMatmul.h"
#include "runtime/Device/Device.h"
#include "runtime/Exec/Collectives.h"
#include "runtime/Exec/ExchangeLane.h"
#include "runtime/Exec/Guard.h"
#include "runtime/Exec/KernelTable.h"
#include "runtime/Exec/Profile.h"
#include "runtime/Exec/RankMemory.h"

#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace cleave::rt {

/// What a rank has taken from the system, in bytes.
struct MemoryUse {
  int64_t segments = 0;
  /// Staging of collectives that are not contiguous.
  int64_t staging = 0;
  int64_t matmulScratch = 0;
  int64_t total() const { return segments + staging + matmulScratch; }
  MemoryUse &operator+=(const MemoryUse &other) {
    segments += other.segments;
    staging += other.staging;
    matmulScratch += other.matmulScratch;
    return *this;
  }
};

struct ExecutorOptions {
  /// Take the time of every command (two clock readings each).
  bool profile = false;
  /// Ends the run with the error of a command. Called where buckets are under way, which
  /// might wait for ever for ranks that wait for this one; needed where there are any.
  std::function<void(Error)> endRun = {};
  /// Told before and after a wait for a bucket.
  std::function<void(bool waits)> awaiting = {};
  /// What holds the rank's memory and runs the kernels of a GPU, where the program has some;
  /// outlives the executor. All else runs on the processor once the device has come to its end.
  RankDevice *device = nullptr;
};

class Executor {
public:
  /// `program` (validated), `pool` and the communicators must outlive it.
  /// `groups` holds one communicator for each of the program's groups; those of
  /// one rank may be null. Kinds: `image.missing_kernel`,
  /// `runtime.out_of_memory`, `device.matmul_refused`.
  static StatusOr<std::unique_ptr<Executor>> create(const Program &program, int64_t rank,
                                                    KernelTable kernels, ThreadPool &pool,
                                                    std::vector<Communicator *> groups,
                                                    ExecutorOptions options = {});
  /// Ends the run if buckets are under way, and waits for them.
  ~Executor();

  /// Runs the entry's commands. The error of a command is that of its part with
  /// a note of rank, entry and label.
  Status run(EntryKind entry) { return runList(Program::entryIndex(entry), 0); }
  /// The same for an entry of the program's stage with index `stage`, on the copies
  /// of `slot`.
  Status run(size_t stage, StageEntry entry, int64_t slot) {
    return runList(Program::entryIndex(stage, entry), slot);
  }

  /// The entry up to the copy that writes `region` first, and the rest of it. Without
  /// such a copy the first part is all.
  Status runUntilWritten(EntryKind entry, const Region &region);
  Status runBehindWritten(EntryKind entry, const Region &region);
  /// Whether a copy of the entry writes `first`, and none writes `second` before it.
  bool writesBefore(EntryKind entry, const Region &first, const Region &second) const;

  /// From now on the results of products and kernels are looked at. What runs then is slow.
  void watchResults() { watching = true; }
  const std::optional<BadResult> &firstBadResult() const { return bad; }

  const RankMemory &memory() const { return rankMemory; }
  int64_t rank() const { return ownRank; }
  MemoryUse memoryUse() const;
  /// What the entries run, repeats written out: the commands that `profile` and
  /// errors count.
  const EntryLists &commands() const { return unrolled; }
  const Profile &profile() const { return times; }

private:
  using Action = std::function<Status()>;

  Executor(const Program &program, int64_t rank, ThreadPool &pool, RankMemory memory,
           ExecutorOptions options);
  Status prepare(KernelTable kernels, const std::vector<Communicator *> &groups);
  StatusOr<Action> prepareCommand(const Command &command, KernelTable kernels);
  /// What the device does; nothing where there is none, or for what it does not do.
  StatusOr<Action> prepareOnDevice(const Command &command);
  Status prepareSlot(size_t entry, int64_t slot, KernelTable kernels);
  Status runList(size_t entry, int64_t slot) {
    return runList(entry, slot, 0, unrolled[entry].size());
  }
  /// Commands first … last - 1, to their ends.
  Status runList(size_t entry, int64_t slot, size_t first, size_t last);
  size_t behindWritten(size_t entry, const Region &region) const;
  void watch(size_t entry, int64_t slot, size_t command);
  StatusOr<Action> prepareKernel(const KernelCommand &command, KernelTable kernels);
  StatusOr<Action> prepareMatmul(const MatmulCommand &command);
  StatusOr<Action> preparePicked(const PickedMatmulCommand &command);
  StatusOr<Action> preparePicked(const PickedOuterCommand &command);
  template <typename Command, typename Plan> Action runPicked(const Command &command, Plan plan);
  Action prepareZero(const ZeroCommand &command);
  Action prepareCopy(const CopyCommand &command);
  Action prepareStart(const BesideCommand &bucket, const std::string &label);
  Action prepareAwait(const AwaitCommand &command);
  Status prepareBeside(const std::vector<Communicator *> &groups);
  void endBeside(const Error &error);
  Status finishDevice() { return options.device ? options.device->finish() : Status(); }
  Status failed(size_t entry, size_t index, const Status &status) const;

  const Program &program;
  const EntryLists unrolled;
  const int64_t ownRank;
  ThreadPool &pool;
  RankMemory rankMemory;
  ExecutorOptions options;
  MatmulEngine matmul;
  PickedMatmulEngine picked;
  std::unique_ptr<CollectiveRunner> collectives;
  /// For each entry one list for each slot, where it is a stage's, else one.
  std::vector<std::vector<std::vector<Action>>> actions;
  Profile times;
  bool watching = false;
  int64_t watched = 0;
  std::optional<BadResult> bad;

  /// What runs beside. The lane ends before what its jobs use.
  struct Beside {
    ThreadPool pool{1};
    std::unique_ptr<CollectiveRunner> collectives;
    /// At places that stay.
    std::deque<ExchangeLane::Job> jobs;
    /// Of the buckets of the entry that runs, by number.
    std::vector<uint64_t> started;
    ExchangeLane lane;
  };
  /// Null where the program has no buckets.
  std::unique_ptr<Beside> beside;
};

} // namespace cleave::rt

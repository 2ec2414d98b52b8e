// What keeps the processes of a run together beside its messages: connections of
// their own between the first process, the leader, and each of the others, and a
// thread in each process that looks after them.
//
// - Each process says at least once a second that it runs. One whose connection
//   breaks, or that is silent for too long, is lost.
// - The first failure, or loss, that reaches the leader is the failure of the run:
//   the leader tells all. If the leader is lost, each process finds out by itself.
// - If all ranks wait for each other and nothing moves for as long, that is a
//   failure too.
// - A process whose ranks do not come back after a failure (they compute, or sit in
//   a system call) is ended from here, so that the run ends whatever they do.
//
// Internal to Comm/Processes; see ProcessTeam.
#pragma once

#include "runtime/Comm/Processes/Rendezvous.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace cleave::rt {

/// What the ranks of this process are at.
struct Whereabouts {
  /// Of the first rank here that waits, or of the first.
  int rank = 0;
  uint64_t step = 0;
  std::string collective;
  bool isWaiting = false;
  /// No rank here runs: each waits for others or has ended.
  bool noneRuns = false;
  /// At least one waits, or has ended.
  bool anyWaits = false, anyEnded = false;
  uint64_t progress = 0;
};

struct ControlOptions {
  /// A process silent for so long is lost.
  std::chrono::milliseconds silence{15000};
  /// Shows an error to the user; called at most once, on one of the processes.
  std::function<void(const Error &)> show;
};

/// A named value that must be the same on all processes.
struct Fact {
  std::string name, value;
};

class ControlPlane {
public:
  ControlPlane(Rendezvous rendezvous, int process, ControlOptions options);
  /// Ends the thread; connections close.
  ~ControlPlane();

  const std::vector<ProcessInfo> &processes() const { return infos; }
  /// Ranks of each process, for messages; 0 if not known yet.
  void setRanksEach(int ranks) { ranksEach = ranks; }
  /// Called on the control thread, or at once if there is a failure already.
  void onFailure(std::function<void(const Error &)> callback);
  /// Asked on the control thread while the ranks run; null when they have ended.
  void setWhereabouts(std::function<Whereabouts()> callback);

  /// Reports a failure here and returns the failure of the run, which may be
  /// another's. Waits for the leader's word a few seconds at most.
  Error report(Error error);
  /// Waits for all processes; the failure of the run if there is one. All must give
  /// equal facts: else `kind`, naming the first that differs. After the `last`
  /// meeting nobody is missed any more.
  Status meet(const std::string &kind, std::vector<Fact> facts, bool last = false);
  Status failure() const;

  /// After a failure: shows it, if this is the process to do it, and takes leave.
  /// The process must then end without waiting for others.
  void endFailed();

private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    Link link;
    Clock::time_point heard;
    bool saidBye = false;
    Whereabouts state;
    /// What it has said at the meeting in progress.
    std::optional<std::string> facts;
  };
  struct Loss {
    int process;
    bool isSilent;
    Clock::time_point decideAt;
  };

  bool leads() const { return self == 0; }
  void loop();
  void wait();
  void readLinks(Clock::time_point now);
  void handle(int process, const Frame &frame);
  void handleMeeting();
  void resign();
  void sayAlive(Clock::time_point now);
  void lookForLosses(Clock::time_point now);
  void lookForStall(Clock::time_point now);
  void lookForEnd(Clock::time_point now);
  void lose(int process, bool isSilent, Clock::time_point now);
  Error describeLoss(const Loss &loss);
  std::string ranksOf(int process) const;
  /// Makes `error` the failure of the run, unless there is one.
  void decide(Error error);
  void sendAll(FrameKind kind, const std::string &payload);
  void wake();
  Whereabouts whereabouts();
  /// True once, on the process that is to show the failure.
  bool claimSpeech();
  void endByForce();

  const int self;
  const std::vector<ProcessInfo> infos;
  const ControlOptions options;
  std::atomic<int> ranksEach{0};

  mutable std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  Status decided;
  bool leaderIsLost = false;
  std::vector<std::pair<FrameKind, std::string>> outbox; // to the leader, or to all
  std::optional<std::string> ownFacts;
  std::optional<Error> ownError;
  std::string meetingKind;
  bool meetingIsLast = false;
  uint64_t meetingsDone = 0;
  bool over = false; // the last meeting is done
  bool leaving = false, quit = false, allGone = false;

  /// Held while a callback runs, so that none runs after it was taken away.
  std::mutex callbackMutex;
  std::function<void(const Error &)> failureCallback;
  std::function<Whereabouts()> whereaboutsCallback;
  /// The last answer; before the first, that of a process that prepares itself.
  Whereabouts lastWhereabouts;

  // Of the thread alone.
  std::vector<Peer> peers;
  Clock::time_point lastAlive, lastLoop, movedAt, forceAt;
  uint64_t lastProgress = 0;
  std::optional<Loss> loss;
  std::optional<Clock::time_point> overSince;
  bool isFailed = false;

  std::atomic<bool> spoken{false};
  FileDescriptor wakeUp;
  std::thread thread;
};

} // namespace cleave::rt

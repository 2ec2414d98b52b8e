// The processes of one run. A launcher starts P of them, a transport carries their
// messages, and each holds L of the P · L ranks as threads: process i the ranks
// i·L … i·L + L − 1.
//
// From `connect` to `finish` a process that ends, stops, or loses its connection is
// a failure of the run, as any rank's error is: all processes hear of the first one
// and end with it. Sums have the bits that LocalWorld gives them.
#pragma once

#include "runtime/Comm/Communicator.h"
#include "runtime/Comm/Transport.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace cleave::rt {

struct TeamOptions {
  /// A process silent for so long is lost.
  std::chrono::milliseconds silence{15000};
  /// Shows the failure of the run to the user. Called on one of the processes (where
  /// the first of them is lost, on one of each host), from any thread.
  std::function<void(const Error &)> show;
};

class ProcessTeam {
public:
  /// Waits for all processes. `comm.unreachable`, `comm.transport_failed`. `owner`, of
  /// what the table speaks of, is held as long as the team lives.
  static StatusOr<std::unique_ptr<ProcessTeam>> connect(const CleaveTransport &transport,
                                                        TeamOptions options,
                                                        std::shared_ptr<void> owner = nullptr);
  virtual ~ProcessTeam() = default;

  virtual int process() const = 0;
  virtual int processes() const = 0;
  virtual const char *library() const = 0;
  /// The first process, which does what a run does once.
  bool leads() const { return process() == 0; }
  /// How many processes on this host may use just the cores that this one may use,
  /// itself included.
  virtual int sharingCores() const = 0;

  /// Waits for all, and fails with `kind` (exit 2) if a process has another value
  /// under one of the names, or has another name.
  virtual Status agree(const std::string &kind,
                       const std::vector<std::pair<std::string, std::string>> &facts) = 0;
  /// Makes an error of this process the failure of the run, unless there is one, and
  /// returns that.
  virtual Error report(Error error) = 0;

  /// The ranks here; those of the plan are a multiple of the processes. Lives no longer
  /// than the team, and only one at a time. The plan is the same on all processes;
  /// moreover the members in one process follow each other in a group
  /// (`comm.bad_group`).
  virtual StatusOr<std::unique_ptr<HostedRanks>>
  createWorld(const WorldPlan &plan,
              std::optional<std::chrono::nanoseconds> spin = std::nullopt) = 0;

  /// The orderly end, on all processes; nobody is missed after it.
  virtual Status finish() = 0;
  /// The other end: shows the failure where it is to be shown. The process must then
  /// leave with `_exit`, since the transport's own end would wait for the lost.
  virtual void endFailed() = 0;
};

} // namespace cleave::rt

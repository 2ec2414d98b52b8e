// How the control thread finds out that a process is lost or that nothing moves, and
// what it says then.
#include "runtime/Comm/Processes/ControlPlane.h"

#include <fmt/format.h>

#include <algorithm>

namespace cleave::rt {

namespace {

/// How long a loss may wait until a rank here misses the lost one, so that the
/// message can say where.
constexpr std::chrono::milliseconds missedWithin{200};

std::string seconds(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

} // namespace

std::string ControlPlane::ranksOf(int process) const {
  const int each = ranksEach;
  if (each == 0)
    return fmt::format("process {}", process);
  if (each == 1)
    return fmt::format("rank {}", process);
  return fmt::format("ranks {} to {}", process * each, process * each + each - 1);
}

void ControlPlane::lose(int process, bool isSilent, Clock::time_point now) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (over || leaving || !decided.ok() || loss)
      return;
    if (!leads())
      leaderIsLost = true;
  }
  loss = Loss{process, isSilent, now + missedWithin};
}

void ControlPlane::lookForLosses(Clock::time_point now) {
  if (isFailed)
    return;
  for (size_t i = 0; i < peers.size(); ++i)
    if (peers[i].link.isOpen() && now - peers[i].heard > options.silence)
      lose(leads() ? static_cast<int>(i) : 0, true, now);
  if (loss && (now >= loss->decideAt || whereabouts().isWaiting))
    decide(describeLoss(*loss));
}

Error ControlPlane::describeLoss(const Loss &lost) {
  const Whereabouts here = whereabouts();
  std::string where =
      here.step > 0 ? fmt::format(" in step {}", here.step) : std::string(" before the first step");
  if (!here.collective.empty())
    where += here.isWaiting
                 ? fmt::format(", while rank {} waited in {}", here.rank, here.collective)
                 : fmt::format(", after rank {} was in {}", here.rank, here.collective);
  const std::string ranks = ranksOf(lost.process);
  const bool areMany = ranks.starts_with("ranks");
  Error error = lost.isSilent
                    ? runError("comm.rank_silent", fmt::format("{} did not answer for {}{}", ranks,
                                                               seconds(options.silence), where))
                    : runError("comm.rank_lost",
                               fmt::format("{} {} lost{}", ranks, areMany ? "were" : "was", where));
  error = std::move(error)
              .withGiven(infos[static_cast<size_t>(lost.process)].describe(lost.process))
              .withRule("every process of a run answers until its end");
  if (lost.isSilent)
    error = std::move(error).suggest("--rank-timeout with more seconds, if it was only slow");
  return std::move(error)
      .suggest(lost.isSilent
                   ? "see whether it was stopped, or its host cut off"
                   : "see what ended it: its last lines, or the system for lack of memory")
      .suggest("--resume goes on from the newest checkpoint");
}

/// If no rank of any process runs and nothing has moved for a while, they wait for
/// each other.
void ControlPlane::lookForStall(Clock::time_point now) {
  if (!leads() || isFailed)
    return;
  Whereabouts all = whereabouts();
  for (size_t i = 1; i < peers.size(); ++i) {
    const Whereabouts &state = peers[i].state;
    all.noneRuns = all.noneRuns && state.noneRuns;
    all.anyWaits = all.anyWaits || state.anyWaits;
    all.anyEnded = all.anyEnded || state.anyEnded;
    all.progress += state.progress;
  }
  if (!all.noneRuns || !all.anyWaits || all.progress != lastProgress)
    movedAt = now;
  lastProgress = all.progress;
  // Twice: what a process says about itself is up to a second old.
  if (now - movedAt < options.silence + 2 * std::chrono::seconds(1))
    return;
  const std::string where =
      fmt::format("rank {} in {} of step {}", all.rank, all.collective, all.step);
  if (all.anyEnded) {
    Error error =
        internalError(fmt::format("a rank ended while others waited for it, among them {}", where));
    error.kind = "comm.rank_left";
    return decide(std::move(error));
  }
  decide(runError("comm.stalled",
                  fmt::format("all ranks wait and nothing has moved for {}, among them {}",
                              seconds(options.silence), where))
             .withRule("messages between processes arrive")
             .suggest("see whether the network between the hosts lets messages through")
             .suggest("--rank-timeout with more seconds, if it was only slow"));
}

/// The library's own end waits for all processes, and nobody looks after them then.
void ControlPlane::lookForEnd(Clock::time_point now) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!over || isFailed)
      return;
  }
  if (!overSince)
    overSince = now;
  if (now - *overSince > options.silence)
    decide(runError("comm.stalled", fmt::format("all work was done, but the processes did not end "
                                                "together within {}",
                                                seconds(options.silence)))
               .withRule("processes that have done their work end"));
}

} // namespace cleave::rt

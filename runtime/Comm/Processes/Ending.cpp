// How a failure becomes that of the run, and how processes leave after it.
#include "runtime/Comm/Processes/ControlPlane.h"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

namespace cleave::rt {

namespace {

using std::chrono::milliseconds;

/// How long ranks have to come back after a failure before the process is ended.
/// The leader is quick, since it speaks, and a launcher may end it within a second
/// of the first process that went.
constexpr milliseconds forceAfterOfLeader{400}, forceAfterOfOthers{2500};
/// How long the leader waits for the others to go, and they for its leave.
constexpr milliseconds leaveWithin{3000};
/// How long those who show a failure may take where there is no leader.
constexpr milliseconds speakWithin{700};
/// How long the leader's word on a failure may take.
constexpr milliseconds wordWithin{5000};

} // namespace

Error ControlPlane::report(Error error) {
  std::unique_lock<std::mutex> lock(mutex);
  if (!decided.ok())
    return decided.error();
  if (leads()) {
    if (!ownError)
      ownError = std::move(error);
  } else {
    outbox.emplace_back(FrameKind::Failure, Packer().error(error).take());
    ownError = std::move(error);
  }
  wake();
  changed.wait_for(lock, wordWithin, [this] { return !decided.ok(); });
  return decided.ok() ? *ownError : decided.error();
}

// Launchers end all processes once one has gone, and mpirun does so at once if
// others go too. So nobody goes before the failure has been shown: the leader takes
// leave when it has done that, the others when it has.
void ControlPlane::endFailed() {
  const Status status = failure();
  const bool speaks = claimSpeech();
  if (!status.ok() && speaks)
    options.show(status.error());
  std::unique_lock<std::mutex> lock(mutex);
  // The leader has not answered: better said twice than never.
  if (status.ok() && ownError)
    options.show(*ownError);
  leaving = true;
  if (leads() || leaderIsLost)
    outbox.emplace_back(FrameKind::Bye, "");
  wake();
  if (leaderIsLost)
    changed.wait_for(lock, speaks ? milliseconds(50) : speakWithin, [] { return false; });
  else
    changed.wait_for(lock, leaveWithin, [this] { return allGone; });
}

bool ControlPlane::claimSpeech() {
  bool speaks = leads();
  {
    const std::lock_guard<std::mutex> lock(mutex);
    // Without the leader, the first process left on each host.
    if (leaderIsLost) {
      size_t first = 1;
      while (infos[first].host != infos[static_cast<size_t>(self)].host)
        ++first;
      speaks = static_cast<int>(first) == self;
    }
  }
  return speaks && !spoken.exchange(true);
}

void ControlPlane::decide(Error error) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!decided.ok())
      return;
    decided = error;
  }
  isFailed = true;
  forceAt = Clock::now() + (leads() ? forceAfterOfLeader : forceAfterOfOthers);
  if (leads())
    sendAll(FrameKind::Failure, Packer().error(error).take());
  {
    const std::lock_guard<std::mutex> lock(callbackMutex);
    if (failureCallback)
      failureCallback(error);
  }
  changed.notify_all();
}

/// The others took this leader for lost, have said so, and went.
void ControlPlane::resign() {
  spoken = true;
  decide(runError("comm.rank_silent", "the other processes ended the run without this one"));
}

/// Whatever the ranks do: shows the failure, gives the others time to go, and ends
/// the process.
void ControlPlane::endByForce() {
  const Status status = failure();
  if (claimSpeech())
    options.show(status.error());
  if (leads())
    sendAll(FrameKind::Bye, "");
  const auto deadline = Clock::now() + (leads() ? leaveWithin : milliseconds(0));
  do {
    bool anyLeft = false;
    for (Peer &peer : peers) {
      if (!peer.link.isOpen())
        continue;
      if (!peer.link.write() || !peer.link.read())
        peer.link.close();
      else
        anyLeft = true;
    }
    if (!anyLeft)
      break;
    std::this_thread::sleep_for(milliseconds(10));
  } while (Clock::now() < deadline);
  std::fflush(nullptr);
  ::_exit(static_cast<int>(status.error().exitCode));
}

} // namespace cleave::rt

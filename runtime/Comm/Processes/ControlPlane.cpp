// The control thread: frames, meetings, and how a failure spreads.
#include "runtime/Comm/Processes/ControlPlane.h"

#include <fmt/format.h>

#include <algorithm>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace cleave::rt {

namespace {

using std::chrono::milliseconds;

std::string packed(const std::vector<Fact> &facts) {
  Packer packer;
  packer.number(facts.size());
  for (const Fact &fact : facts)
    packer.text(fact.name).text(fact.value);
  return packer.take();
}

std::vector<Fact> unpacked(const std::string &bytes) {
  Unpacker unpacker(bytes);
  std::vector<Fact> facts;
  for (uint64_t left = unpacker.number(); left > 0 && unpacker.ok(); --left) {
    Fact fact;
    fact.name = unpacker.text();
    fact.value = unpacker.text();
    facts.push_back(std::move(fact));
  }
  return facts;
}

/// Values that may be long, as recipes are.
std::string shortened(const std::string &value) {
  constexpr size_t most = 200;
  return value.size() <= most ? value : value.substr(0, most) + "…";
}

} // namespace

ControlPlane::ControlPlane(Rendezvous rendezvous, int process, ControlOptions given)
    : self(process), infos(std::move(rendezvous.processes)), options(std::move(given)),
      wakeUp(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const auto now = Clock::now();
  lastAlive = lastLoop = movedAt = now;
  // The leader has a peer for each process (its own stays closed), the others one.
  for (Link &link : rendezvous.links) {
    Peer peer;
    peer.link = std::move(link);
    peer.heard = now;
    peers.push_back(std::move(peer));
  }
  // Signals are for the main thread.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread = std::thread([this] { loop(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ControlPlane::~ControlPlane() {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    quit = true;
  }
  wake();
  thread.join();
}

void ControlPlane::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wakeUp.get(), &one, sizeof one);
}

void ControlPlane::onFailure(std::function<void(const Error &)> callback) {
  const std::lock_guard<std::mutex> lock(callbackMutex);
  failureCallback = std::move(callback);
  const Status now = failure();
  if (failureCallback && !now.ok())
    failureCallback(now.error());
}

void ControlPlane::setWhereabouts(std::function<Whereabouts()> callback) {
  const std::lock_guard<std::mutex> lock(callbackMutex);
  if (!callback) {
    lastWhereabouts.noneRuns = lastWhereabouts.anyEnded = true;
    lastWhereabouts.anyWaits = lastWhereabouts.isWaiting = false;
  }
  whereaboutsCallback = std::move(callback);
}

Whereabouts ControlPlane::whereabouts() {
  const std::lock_guard<std::mutex> lock(callbackMutex);
  if (whereaboutsCallback)
    lastWhereabouts = whereaboutsCallback();
  return lastWhereabouts;
}

Status ControlPlane::failure() const {
  const std::lock_guard<std::mutex> lock(mutex);
  return decided;
}

Status ControlPlane::meet(const std::string &kind, std::vector<Fact> facts, bool last) {
  std::unique_lock<std::mutex> lock(mutex);
  const uint64_t meeting = meetingsDone;
  const std::string payload = packed(facts);
  meetingKind = kind;
  meetingIsLast = last;
  ownFacts = payload;
  if (!leads())
    outbox.emplace_back(FrameKind::Meet, payload);
  wake();
  changed.wait(lock, [&] { return !decided.ok() || meetingsDone > meeting; });
  return decided;
}

void ControlPlane::sendAll(FrameKind kind, const std::string &payload) {
  for (Peer &peer : peers)
    if (peer.link.isOpen())
      peer.link.queue(kind, payload);
}

void ControlPlane::loop() {
  while (true) {
    wait();
    const auto now = Clock::now();
    // If this process itself has not run, nobody else is to blame.
    if (now - lastLoop > options.silence / 2) {
      movedAt = now;
      for (Peer &peer : peers)
        peer.heard = now;
    }
    lastLoop = now;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      for (auto &[kind, payload] : outbox)
        sendAll(kind, payload);
      outbox.clear();
    }
    readLinks(now);
    std::optional<Error> error;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (leads())
        error = ownError;
    }
    if (error)
      decide(std::move(*error));
    handleMeeting();
    sayAlive(now);
    lookForLosses(now);
    lookForStall(now);
    lookForEnd(now);
    for (Peer &peer : peers)
      if (peer.link.isOpen() && !peer.link.write())
        peer.link.close();
    const std::lock_guard<std::mutex> lock(mutex);
    allGone = std::ranges::all_of(
        peers, [](const Peer &peer) { return !peer.link.isOpen() || peer.saidBye; });
    if (allGone)
      changed.notify_all();
    if (quit)
      return;
    if (isFailed && !leaving && now > forceAt)
      break;
  }
  endByForce();
}

void ControlPlane::readLinks(Clock::time_point now) {
  for (size_t i = 0; i < peers.size(); ++i) {
    Peer &peer = peers[i];
    const int process = leads() ? static_cast<int>(i) : 0;
    if (!peer.link.isOpen())
      continue;
    const bool isThere = peer.link.read();
    while (const auto frame = peer.link.next()) {
      peer.heard = now;
      handle(process, *frame);
    }
    if (!isThere || !peer.link.isOpen()) {
      peer.link.close();
      if (!peer.saidBye)
        lose(process, false, now);
    }
  }
}

/// Until something comes, somebody calls, or something is due.
void ControlPlane::wait() {
  std::vector<pollfd> entries{{wakeUp.get(), POLLIN, 0}};
  for (const Peer &peer : peers)
    if (peer.link.isOpen())
      entries.push_back({peer.link.descriptor(),
                         static_cast<short>(POLLIN | (peer.link.wantsToWrite() ? POLLOUT : 0)), 0});
  const bool isTense = isFailed || loss;
  const auto pause = isTense ? milliseconds(10) : std::min(milliseconds(200), options.silence / 10);
  ::poll(entries.data(), entries.size(), static_cast<int>(std::max<int64_t>(pause.count(), 1)));
  uint64_t calls = 0;
  [[maybe_unused]] const ssize_t got = ::read(wakeUp.get(), &calls, sizeof calls);
}

void ControlPlane::handle(int process, const Frame &frame) {
  Peer &peer = peers[leads() ? static_cast<size_t>(process) : 0];
  Unpacker payload(frame.payload);
  switch (frame.kind) {
  case FrameKind::Alive:
    peer.state.noneRuns = payload.number() != 0;
    peer.state.anyWaits = payload.number() != 0;
    peer.state.anyEnded = payload.number() != 0;
    peer.state.progress = payload.number();
    return;
  case FrameKind::Failure:
    if (Error error = payload.error(); payload.ok())
      decide(std::move(error));
    return;
  case FrameKind::Meet:
    peer.facts = frame.payload;
    return;
  case FrameKind::Proceed: {
    const std::lock_guard<std::mutex> lock(mutex);
    over = over || meetingIsLast;
    ownFacts.reset();
    ++meetingsDone;
    changed.notify_all();
    return;
  }
  case FrameKind::Bye:
    peer.saidBye = true;
    if (leads() && !isFailed)
      resign();
    return;
  default:
    return; // of the meeting
  }
}

/// The leader lets a meeting go on when all have come.
void ControlPlane::handleMeeting() {
  if (!leads() || isFailed)
    return;
  std::string kind;
  std::vector<Fact> expected;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!ownFacts)
      return;
    for (size_t i = 1; i < peers.size(); ++i)
      if (!peers[i].facts)
        return;
    kind = meetingKind;
    expected = unpacked(*ownFacts);
  }
  for (size_t i = 1; i < peers.size(); ++i) {
    const std::vector<Fact> said = unpacked(*peers[i].facts);
    peers[i].facts.reset();
    for (size_t f = 0; f < std::max(said.size(), expected.size()); ++f) {
      const Fact here = f < expected.size() ? expected[f] : Fact{said[f].name, "nothing"};
      const Fact there = f < said.size() ? said[f] : Fact{here.name, "nothing"};
      if (here.name == there.name && here.value == there.value)
        continue;
      return decide(
          userError(kind,
                    fmt::format("{} has another {} than process 0 on host {}",
                                infos[i].describe(static_cast<int>(i)), here.name, infos[0].host))
              .withGiven(fmt::format("{} there, {} on process 0", shortened(there.value),
                                     shortened(here.value)))
              .withRule("all processes of a run have the same program, settings and files")
              .suggest("start the same binary with the same flags on every host"));
    }
  }
  const std::lock_guard<std::mutex> lock(mutex);
  over = over || meetingIsLast;
  ownFacts.reset();
  ++meetingsDone;
  sendAll(FrameKind::Proceed, "");
  changed.notify_all();
}

void ControlPlane::sayAlive(Clock::time_point now) {
  if (now - lastAlive < std::min(milliseconds(1000), options.silence / 5))
    return;
  lastAlive = now;
  const Whereabouts state = whereabouts();
  sendAll(FrameKind::Alive, Packer()
                                .number(state.noneRuns)
                                .number(state.anyWaits)
                                .number(state.anyEnded)
                                .number(state.progress)
                                .take());
}

} // namespace cleave::rt

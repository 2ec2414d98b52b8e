// Finding the first process, and then the others.
#include "runtime/Comm/TCP/Follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace cleave::rt::tcp {

/// The first process says more often that it runs.
constexpr std::chrono::seconds silenceOfLeader{15};

Follower::Follower(const MeetingPlace &place)
    : place(place), key(keyOf(place)), deadline(Clock::now() + place.limit),
      table(static_cast<size_t>(place.processes)), others(static_cast<size_t>(place.processes)) {}

Hello Follower::hello(Purpose purpose) const {
  return {key, purpose, place.process, place.processes, token};
}

StatusOr<std::optional<Attempt>> Follower::tryAll(const std::vector<Address> &addresses,
                                                  const Hello &hello) {
  std::vector<Attempt> attempts;
  for (const Address &address : addresses)
    attempts.emplace_back(address, hello, Clock::now());
  tried.clear();
  while (!attempts.empty()) {
    std::vector<pollfd> entries;
    for (const Attempt &attempt : attempts)
      attempt.watch(entries);
    if (!entries.empty())
      awaitAny(std::move(entries));
    CLEAVE_RT_RETURN_IF_ERROR(checkStopped(place));
    std::vector<Attempt> left;
    for (Attempt &attempt : attempts) {
      switch (attempt.advance(Clock::now())) {
      case Attempt::State::Welcomed:
        return std::optional(std::move(attempt));
      case Attempt::State::TurnedAway:
        return attempt.refusal();
      case Attempt::State::UnderWay:
        left.push_back(std::move(attempt));
        break;
      case Attempt::State::Failed:
        tried += (tried.empty() ? "" : ", ") + attempt.describe();
      }
    }
    attempts = std::move(left);
  }
  return std::optional<Attempt>();
}

// The first process may start later than this one, and its name may become known later.
Status Follower::enter() {
  std::chrono::milliseconds pause{50};
  constexpr std::chrono::milliseconds longest{500};
  do {
    std::vector<Address> addresses;
    std::string reason;
    for (const Address &address : lookUp(place.host, 0, reason))
      for (uint16_t port : place.ports)
        addresses.push_back(address.withPort(port));
    CLEAVE_RT_ASSIGN_OR_RETURN(std::optional<Attempt> found,
                               tryAll(addresses, hello(Purpose::Messages)));
    if (found) {
      token = found->token();
      leaderAddress = found->address();
      leader = found->take();
      heard = Clock::now();
      ownAddress = Address::localOf(leader.descriptor());
      return {};
    }
    if (addresses.empty())
      tried = fmt::format("{} ({})", place.host, reason);
    CLEAVE_RT_RETURN_IF_ERROR(checkStopped(place));
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, longest);
  } while (Clock::now() < deadline);
  return runError("comm.no_leader",
                  fmt::format("process {} on host {} did not find process 0 at {} within {}",
                              place.process, Presence::ofSelf().host, place.host,
                              secondsText(place.limit)))
      .withGiven(fmt::format("{}; tried {}", place.given, tried))
      .withRule("processes without an MPI meet at an address and a port of process 0")
      .suggest("see whether process 0 was started, and let this host reach that address")
      .suggest("--join-timeout with more seconds, if it only starts later");
}

Error Follower::leaderIsGone() const {
  return runError("comm.no_leader", "process 0 was lost before all had met")
      .withGiven(leaderAddress.text())
      .withRule("every process of a run answers until its end")
      .suggest("see what ended it: its last lines, or the system for lack of memory");
}

StatusOr<std::optional<Frame>> Follower::askLeader() {
  const bool isThere = leader.write() && leader.read();
  while (auto frame = leader.next()) {
    heard = Clock::now();
    if (frame->kind == FrameKind::Failure)
      return Unpacker(frame->payload).error();
    if (frame->kind != FrameKind::Alive)
      return frame;
  }
  if (!isThere || !leader.isOpen())
    return leaderIsGone();
  if (Clock::now() - heard > silenceOfLeader)
    return runError("comm.no_leader",
                    fmt::format("process 0 at {} did not answer for {}", leaderAddress.text(),
                                secondsText(silenceOfLeader)))
        .withRule("every process of a run answers until its end")
        .suggest("see whether it was stopped, or its host cut off");
  CLEAVE_RT_RETURN_IF_ERROR(checkStopped(place));
  return std::optional<Frame>();
}

StatusOr<Frame> Follower::hear() {
  while (true) {
    CLEAVE_RT_ASSIGN_OR_RETURN(std::optional<Frame> frame, askLeader());
    if (frame)
      return *std::move(frame);
    awaitAny({{leader.descriptor(), POLLIN, 0}});
  }
}

// It listens at the address by which it reached the first process. If that is the
// host's own loop and others may be elsewhere, at all, since the address by which those
// will come is only known to the first process.
Status Follower::present() {
  if (place.process + 1 < place.processes) {
    const bool isOpen = ownAddress.isLoopback() && !place.isOneHost && place.host != "localhost" &&
                        leaderAddress.host() != place.host;
    int code = 0;
    listener =
        listenAt(isOpen ? Address::any(ownAddress.isVersion6()) : ownAddress.withPort(0), code);
    if (code != 0)
      return systemError(
          "comm.unreachable",
          fmt::format("cannot listen for the other processes at {}", ownAddress.host()), code);
    ownAddress = ownAddress.withPort(Address::localOf(listener->get()).port());
  }
  Presence presence = Presence::ofSelf();
  presence.address = ownAddress;
  Packer packer;
  leader.queue(FrameKind::Present, presence.pack(packer).take());
  return hear().status();
}

Status Follower::openControl() {
  do {
    CLEAVE_RT_ASSIGN_OR_RETURN(std::optional<Attempt> found,
                               tryAll({leaderAddress}, hello(Purpose::Control)));
    if (found) {
      control = found->take();
      return {};
    }
  } while (Clock::now() < deadline);
  return runError("comm.no_leader",
                  fmt::format("process {} cannot reach process 0 again: {}", place.process, tried))
      .withRule("processes without an MPI meet at an address and a port of process 0");
}

Status Follower::awaitTable() {
  CLEAVE_RT_ASSIGN_OR_RETURN(const Frame frame, hear());
  Unpacker payload(frame.payload);
  for (size_t process = 1; process < table.size(); ++process) {
    table[process] = Presence::unpack(payload);
    table[process].address = table[process].address.onInterfaceOf(ownAddress);
  }
  if (frame.kind == FrameKind::Table && payload.ok())
    return {};
  return leaderIsGone();
}

/// Those before this one are called, those behind it call.
Status Follower::connectToOthers() {
  std::vector<FileDescriptor> listeners;
  if (listener)
    listeners.push_back(std::move(*listener));
  Door door(std::move(listeners));
  const auto until = Clock::now() + limitOfMesh;
  const auto self = static_cast<size_t>(place.process);
  std::vector<std::optional<Attempt>> attempts(self);
  auto isDone = [&] {
    for (size_t process = 1; process < others.size(); ++process)
      if (process != self && !others[process].isOpen())
        return false;
    return true;
  };
  std::string last;
  while (!isDone()) {
    std::vector<pollfd> entries{{leader.descriptor(), POLLIN, 0}};
    door.watch(entries);
    for (size_t process = 1; process < self; ++process) {
      if (others[process].isOpen())
        continue;
      std::optional<Attempt> &attempt = attempts[process];
      if (!attempt)
        attempt.emplace(table[process].address, hello(Purpose::Messages), Clock::now());
      attempt->watch(entries);
    }
    awaitAny(std::move(entries));
    for (size_t process = 1; process < self; ++process) {
      if (!attempts[process])
        continue;
      const Attempt::State state = attempts[process]->advance(Clock::now());
      if (state == Attempt::State::UnderWay)
        continue;
      if (state == Attempt::State::Welcomed &&
          attempts[process]->process() == static_cast<int>(process))
        others[process] = attempts[process]->take();
      else
        last = attempts[process]->describe();
      attempts[process].reset();
    }
    for (Guest &guest : door.admit(key, token)) {
      const auto process = static_cast<size_t>(guest.hello.process);
      if (process <= self || process >= others.size())
        continue;
      welcome(guest.link, key, token, place.process);
      others[process] = std::move(guest.link);
    }
    CLEAVE_RT_RETURN_IF_ERROR(askLeader().status());
    if (Clock::now() > until)
      return missedError(self, last);
  }
  return {};
}

Error Follower::missedError(size_t self, const std::string &last) const {
  size_t missed = 1;
  while (missed == self || others[missed].isOpen())
    ++missed;
  const bool calls = missed < self;
  return runError("comm.unreachable", fmt::format("process {} {} process {} within {}", self,
                                                  calls ? "could not reach" : "was not reached by",
                                                  missed, secondsText(limitOfMesh)))
      .withGiven(fmt::format("{}; {}", table[missed].describe(static_cast<int>(missed)),
                             last.empty() ? table[missed].address.text() : last))
      .withRule("every process of a run reaches every other over TCP, on ports of the system's "
                "choice")
      .suggest("let the hosts of the run reach each other");
}

StatusOr<std::vector<Contact>> Follower::run() {
  CLEAVE_RT_RETURN_IF_ERROR(enter());
  auto attend = [&]() -> Status {
    CLEAVE_RT_RETURN_IF_ERROR(present());
    CLEAVE_RT_RETURN_IF_ERROR(openControl());
    CLEAVE_RT_RETURN_IF_ERROR(awaitTable());
    CLEAVE_RT_RETURN_IF_ERROR(connectToOthers());
    leader.queue(FrameKind::Ready, "");
    return hear().status();
  };
  if (const Status status = attend(); !status.ok()) {
    // It tells the others. If the error came from there, it has gone.
    leader.queue(FrameKind::Failure, Packer().error(status.error()).take());
    leader.write();
    return status;
  }
  std::vector<Contact> contacts(others.size());
  others[0] = std::move(leader);
  for (size_t process = 0; process < others.size(); ++process) {
    if (!others[process].isOpen())
      continue;
    contacts[process].messages = others[process].release(contacts[process].unread);
    contacts[process].address = process == 0 ? leaderAddress.text() : table[process].address.text();
  }
  std::string nothing;
  contacts[0].control = control.release(nothing);
  return contacts;
}

} // namespace cleave::rt::tcp

// Listening, letting in, introducing.
#include "runtime/Comm/TCP/Leader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include <sys/resource.h>

namespace cleave::rt::tcp {

namespace {

uint64_t makeToken() {
  std::random_device random;
  uint64_t token = 0;
  while (token == 0)
    token = static_cast<uint64_t>(random()) << 32 | random();
  return token;
}

/// A process holds a socket or two for each of the others.
void allowManyDescriptors() {
  rlimit allowed = {};
  if (::getrlimit(RLIMIT_NOFILE, &allowed) != 0)
    return;
  allowed.rlim_cur = allowed.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &allowed);
}

} // namespace

Leader::Leader(const MeetingPlace &place)
    : place(place), key(keyOf(place)), token(makeToken()),
      members(static_cast<size_t>(place.processes)) {
  allowManyDescriptors();
}

/// The addresses under which the others look for this process, as far as they are
/// this host's. Where the name leads to this host's own loop (Debian gives a host's name
/// such an address) or to another device that passes connections on, all there are.
std::vector<Address> Leader::placesToListen() const {
  std::string reason;
  const std::vector<Address> found = lookUp(place.host, 0, reason), own = ownAddresses();
  std::vector<Address> outer, inner;
  for (const Address &address : found)
    if (std::ranges::any_of(own, [&](const Address &mine) { return mine.isHostOf(address); }) ||
        address.isLoopback())
      (address.isLoopback() ? inner : outer).push_back(address);
  if (!outer.empty())
    return outer;
  const bool saysLoop =
      place.host == "localhost" || std::ranges::any_of(inner, [&](const Address &address) {
        return address.host() == place.host;
      });
  if (!inner.empty() && (saysLoop || place.isOneHost))
    return inner;
  return {Address::any(true)};
}

StatusOr<std::vector<FileDescriptor>> Leader::listen() {
  const std::vector<Address> places = placesToListen();
  std::string tried;
  for (uint16_t port : place.ports) {
    std::vector<FileDescriptor> listeners;
    int code = 0;
    for (const Address &address : places) {
      FileDescriptor listener = listenAt(address.withPort(port), code);
      // A system without version 6.
      if (code == EAFNOSUPPORT && places.size() == 1 && address.isVersion6())
        listener = listenAt(Address::any(false).withPort(port), code);
      const bool isLast = &address == &places.back();
      if (code == EADDRNOTAVAIL && (!isLast || !listeners.empty())) {
        // Version 6 may be there and turned off.
        code = 0;
        continue;
      }
      if (code != 0) {
        tried += fmt::format("{}{} ({})", tried.empty() ? "" : ", ", address.withPort(port).text(),
                             std::strerror(code));
        break;
      }
      listensAt += fmt::format("{}{}", listensAt.empty() ? "" : ", ",
                               Address::localOf(listener.get()).text());
      listeners.push_back(std::move(listener));
    }
    if (code == 0 && !listeners.empty())
      return listeners;
    listensAt.clear();
  }
  return userError("comm.port_taken",
                   fmt::format("process 0 cannot listen for the other processes: {}", tried))
      .withGiven(place.given)
      .withRule("processes without an MPI meet at a port of process 0's host that nobody else uses")
      .suggest("CLEAVE_PORT=N, the same for all processes, with a port that is free there");
}

void Leader::refuse(Link link, std::string message, std::string given, std::string suggestion) {
  turnAway(link, userError("runtime.bad_launch", std::move(message))
                     .withGiven(std::move(given))
                     .withRule("the processes of a run are numbered from 0, each number is given "
                               "once, and all know how many they are")
                     .suggest(std::move(suggestion)));
  leaving.push_back(std::move(link));
}

void Leader::letIn(Guest guest) {
  const Hello &hello = guest.hello;
  if (hello.processes != place.processes)
    return refuse(std::move(guest.link),
                  fmt::format("process {} was told of {} processes, process 0 of {}", hello.process,
                              hello.processes, place.processes),
                  fmt::format("{} processes", hello.processes),
                  fmt::format("start all of them with {}", place.processes));
  welcome(guest.link, key, token, 0);
  if (hello.purpose == Purpose::Messages) {
    guests.push_back(std::move(guest));
  } else if (Member &member = members[static_cast<size_t>(hello.process)];
             hello.token == token && member.isPresent) {
    member.control = std::move(guest.link);
    member.isComplete = true;
  }
}

/// A process may have several connections until it says which one it takes.
void Leader::hearGuests() {
  std::vector<Guest> left;
  for (Guest &guest : guests) {
    const bool isThere = guest.link.read();
    const auto frame = guest.link.next();
    if (!frame || frame->kind != FrameKind::Present) {
      if (!frame && isThere && guest.link.isOpen())
        left.push_back(std::move(guest));
      continue;
    }
    const int process = guest.hello.process;
    Member &member = members[static_cast<size_t>(process)];
    Unpacker payload(frame->payload);
    Presence presence = Presence::unpack(payload);
    if (!payload.ok())
      continue;
    if (process == 0 || member.isPresent) {
      const Presence &other = process == 0 ? Presence::ofSelf() : member.presence;
      refuse(std::move(guest.link), fmt::format("there are two processes {}", process),
             fmt::format("the other one: {}", other.describe(process)),
             "give each process a number of its own");
      continue;
    }
    member.presence = std::move(presence);
    member.cameTo = Address::localOf(guest.link.descriptor());
    member.messages = std::move(guest.link);
    member.isPresent = true;
    member.messages.queue(FrameKind::Present, "");
  }
  guests = std::move(left);
  std::erase_if(leaving, [](Link &link) { return !link.write() || !link.read(); });
}

Status Leader::hearMembers() {
  const auto now = Clock::now();
  const bool isTime = now - saidAlive > std::chrono::seconds(1);
  if (isTime)
    saidAlive = now;
  for (int process = 1; process < place.processes; ++process) {
    Member &member = members[static_cast<size_t>(process)];
    if (!member.isPresent)
      continue;
    if (isTime)
      member.messages.queue(FrameKind::Alive, "");
    const bool isThere = member.messages.write() && member.messages.read();
    while (const auto frame = member.messages.next()) {
      if (frame->kind == FrameKind::Failure)
        return Unpacker(frame->payload).error();
      member.isReady = member.isReady || frame->kind == FrameKind::Ready;
    }
    if (!isThere || !member.messages.isOpen())
      return runError("comm.rank_lost",
                      fmt::format("process {} was lost before all had met", process))
          .withGiven(member.presence.describe(process))
          .withRule("every process of a run answers until its end")
          .suggest("see what ended it: its last lines, or the system for lack of memory");
  }
  return {};
}

void Leader::watchAll(std::vector<pollfd> &entries) const {
  for (const Member &member : members)
    if (member.isPresent)
      entries.push_back(
          {member.messages.descriptor(),
           static_cast<short>(POLLIN | (member.messages.wantsToWrite() ? POLLOUT : 0)), 0});
  for (const Guest &guest : guests)
    entries.push_back({guest.link.descriptor(), POLLIN, 0});
}

std::vector<int> Leader::missing(bool Member::*quality) const {
  std::vector<int> found;
  for (int process = 1; process < place.processes; ++process)
    if (!(members[static_cast<size_t>(process)].*quality))
      found.push_back(process);
  return found;
}

/// "process 3", "processes 1, 4 and 9 more"
std::string Leader::missingText(bool Member::*quality) const {
  constexpr size_t most = 16;
  const std::vector<int> numbers = missing(quality);
  std::string text = numbers.size() == 1 ? "process " : "processes ";
  for (size_t i = 0; i < numbers.size() && i < most; ++i)
    text += fmt::format("{}{}", i > 0 ? ", " : "", numbers[i]);
  if (numbers.size() > most)
    text += fmt::format(" and {} more", numbers.size() - most);
  return text;
}

Status Leader::gather(Door &door) {
  const auto deadline = Clock::now() + place.limit;
  while (!missing(&Member::isComplete).empty()) {
    if (Clock::now() > deadline) {
      Error error =
          runError("comm.unreachable",
                   fmt::format("{} of {} did not come to process 0 on host {} within {}",
                               missingText(&Member::isComplete), place.processes,
                               Presence::ofSelf().host, secondsText(place.limit)))
              .withGiven(fmt::format("{}; it listens at {}", place.given, listensAt))
              .withRule("processes without an MPI meet at an address and a port of process 0");
      if (door.strangers() > 0)
        error = std::move(error).note(
            fmt::format("{} connection{} turned away, being of no process of this run",
                        door.strangers(), door.strangers() == 1 ? " was" : "s were"));
      return std::move(error)
          .suggest("see whether they were started, and let their hosts reach that address")
          .suggest("--join-timeout with more seconds, if they only start later");
    }
    std::vector<pollfd> entries;
    door.watch(entries);
    watchAll(entries);
    awaitAny(std::move(entries));
    CLEAVE_RT_RETURN_IF_ERROR(checkStopped(place));
    for (Guest &guest : door.admit(key, 0))
      letIn(std::move(guest));
    hearGuests();
    CLEAVE_RT_RETURN_IF_ERROR(hearMembers());
  }
  return {};
}

/// Where each of the members listens, as the others can reach it: one that came by this
/// host's own loop is on this host, which those from elsewhere know by another address.
void Leader::sendTable() {
  std::optional<Address> outer;
  for (const Member &member : members)
    if (member.messages.isOpen() && !member.cameTo.isLoopback())
      outer = member.cameTo;
  Packer packer;
  for (size_t process = 1; process < members.size(); ++process) {
    Presence presence = members[process].presence;
    if (outer && presence.address.isLoopback())
      presence.address = outer->withPort(presence.address.port());
    presence.pack(packer);
  }
  const std::string table = packer.take();
  for (Member &member : members)
    if (member.messages.isOpen())
      member.messages.queue(FrameKind::Table, table);
}

Status Leader::awaitReady() {
  const auto deadline = Clock::now() + limitOfMesh + std::chrono::seconds(5);
  while (!missing(&Member::isReady).empty()) {
    if (Clock::now() > deadline) {
      const int process = missing(&Member::isReady).front();
      return runError("comm.unreachable",
                      fmt::format("{} came, but did not connect to the others within {}",
                                  missingText(&Member::isReady), secondsText(limitOfMesh)))
          .withGiven(members[static_cast<size_t>(process)].presence.describe(process))
          .withRule("every process of a run reaches every other over TCP")
          .suggest("see whether it was stopped, or its host cut off");
    }
    std::vector<pollfd> entries;
    watchAll(entries);
    awaitAny(std::move(entries));
    CLEAVE_RT_RETURN_IF_ERROR(checkStopped(place));
    CLEAVE_RT_RETURN_IF_ERROR(hearMembers());
  }
  return {};
}

Error Leader::spread(Error error) {
  const std::string payload = Packer().error(error).take();
  std::vector<Link> links = std::move(leaving);
  for (Member &member : members)
    if (member.messages.isOpen()) {
      member.messages.queue(FrameKind::Failure, payload);
      links.push_back(std::move(member.messages));
    }
  for (Guest &guest : guests) {
    guest.link.queue(FrameKind::Failure, payload);
    links.push_back(std::move(guest.link));
  }
  // They hang up when they have read it; who hangs up first may cut it off.
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  while (!links.empty() && Clock::now() < deadline) {
    std::vector<pollfd> entries;
    for (const Link &link : links)
      entries.push_back({link.descriptor(), POLLIN, 0});
    awaitAny(std::move(entries));
    std::erase_if(links, [](Link &link) { return !link.write() || !link.read(); });
  }
  return error;
}

StatusOr<std::vector<Contact>> Leader::run() {
  CLEAVE_RT_ASSIGN_OR_RETURN(std::vector<FileDescriptor> listeners, listen());
  Status status;
  {
    Door door(std::move(listeners));
    status = gather(door);
  }
  if (status.ok()) {
    sendTable();
    status = awaitReady();
  }
  if (!status.ok())
    return spread(status.error());
  std::vector<Contact> contacts(1);
  for (size_t process = 1; process < members.size(); ++process) {
    Member &member = members[process];
    member.messages.queue(FrameKind::Go, "");
    const auto deadline = Clock::now() + std::chrono::seconds(5);
    while (member.messages.write() && member.messages.wantsToWrite() && Clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Contact contact;
    contact.address = member.presence.address.text();
    contact.messages = member.messages.release(contact.unread);
    std::string nothing;
    contact.control = member.control.release(nothing);
    contacts.push_back(std::move(contact));
  }
  return contacts;
}

} // namespace cleave::rt::tcp

// Hellos, and the two sides of a connection that begins.
#include "runtime/Comm/TCP/Greeting.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace cleave::rt::tcp {

namespace {

constexpr std::string_view protocol = "cleave processes 1";

/// How long one that has connected may take to say who it is, or to answer.
constexpr std::chrono::seconds patience{3};

/// No hello is as long.
constexpr size_t longestHello = 1024;

/// Those in the door at a time; more wait outside.
constexpr size_t mostKnocks = 1024;

} // namespace

std::string Hello::pack() const {
  return Packer()
      .text(protocol)
      .number(key)
      .number(static_cast<uint64_t>(purpose))
      .number(static_cast<uint64_t>(process))
      .number(static_cast<uint64_t>(processes))
      .number(token)
      .take();
}

std::optional<Hello> Hello::unpack(const Frame &frame) {
  Unpacker payload(frame.payload);
  if (frame.kind != FrameKind::Hello || payload.text() != protocol)
    return std::nullopt;
  Hello hello;
  hello.key = payload.number();
  hello.purpose = static_cast<Purpose>(payload.number());
  const uint64_t process = payload.number(), processes = payload.number();
  hello.token = payload.number();
  if (!payload.ok() || process >= processes || processes > uint64_t{1} << 20)
    return std::nullopt;
  hello.process = static_cast<int>(process);
  hello.processes = static_cast<int>(processes);
  return hello;
}

void welcome(Link &link, uint64_t key, uint64_t token, int process) {
  link.queue(FrameKind::Welcome, Packer()
                                     .text(protocol)
                                     .number(key)
                                     .number(token)
                                     .number(static_cast<uint64_t>(process))
                                     .take());
  link.write();
}

void turnAway(Link &link, const Error &error) {
  link.queue(FrameKind::Failure, Packer().error(error).take());
  link.write();
}

void Door::watch(std::vector<pollfd> &entries) const {
  if (knocks.size() < mostKnocks)
    for (const FileDescriptor &listener : listeners)
      entries.push_back({listener.get(), POLLIN, 0});
  for (const Knock &knock : knocks)
    entries.push_back({knock.link.descriptor(), POLLIN, 0});
}

std::vector<Guest> Door::admit(uint64_t key, uint64_t token) {
  const auto now = Clock::now();
  for (const FileDescriptor &listener : listeners)
    while (knocks.size() < mostKnocks) {
      FileDescriptor socket = acceptConnection(listener.get());
      if (!socket.valid())
        break;
      knocks.push_back({Link(std::move(socket)), now + patience});
    }
  std::vector<Guest> guests;
  std::vector<Knock> left;
  for (Knock &knock : knocks) {
    const bool isThere = knock.link.read();
    const std::optional<Frame> frame = knock.link.next();
    if (!frame && isThere && knock.link.isOpen() && knock.link.unread() < longestHello &&
        now < knock.until) {
      left.push_back(std::move(knock));
      continue;
    }
    const std::optional<Hello> hello = frame ? Hello::unpack(*frame) : std::nullopt;
    if (hello && hello->key == key && (token == 0 || hello->token == token))
      guests.push_back({std::move(knock.link), *hello});
    else
      ++turnedAway;
  }
  knocks = std::move(left);
  return guests;
}

Attempt::Attempt(const Address &address, const Hello &hello, Clock::time_point now)
    : target(address), hello(hello), until(now + patience) {
  int code = 0;
  link = Link(beginConnection(address, code));
  if (code != 0)
    reason = std::strerror(code);
}

void Attempt::watch(std::vector<pollfd> &entries) const {
  if (link.isOpen())
    entries.push_back({link.descriptor(), static_cast<short>(isConnected ? POLLIN : POLLOUT), 0});
}

Attempt::State Attempt::fail(std::string why) {
  link.close();
  reason = std::move(why);
  return State::Failed;
}

Attempt::State Attempt::advance(Clock::time_point now) {
  if (!link.isOpen())
    return State::Failed;
  if (!isConnected) {
    pollfd entry{link.descriptor(), POLLOUT, 0};
    if (::poll(&entry, 1, 0) == 0)
      return now < until ? State::UnderWay : fail(std::strerror(ETIMEDOUT));
    if (const int code = connectionError(link.descriptor()); code != 0)
      return fail(std::strerror(code));
    // A port that the system gives out can be given to this very connection.
    const Address local = Address::localOf(link.descriptor());
    if (local.isHostOf(target) && local.port() == target.port())
      return fail(std::strerror(ECONNREFUSED));
    isConnected = true;
    link.queue(FrameKind::Hello, hello.pack());
    link.write();
  }
  const bool isThere = link.read();
  const std::optional<Frame> frame = link.next();
  if (!frame) {
    if (!isThere || !link.isOpen())
      return fail("it hung up");
    return now < until ? State::UnderWay : fail("no answer");
  }
  Unpacker payload(frame->payload);
  if (frame->kind == FrameKind::Failure) {
    said = payload.error();
    return payload.ok() ? State::TurnedAway : fail("somebody else answers");
  }
  if (frame->kind != FrameKind::Welcome || payload.text() != protocol ||
      payload.number() != hello.key)
    return fail("somebody else answers");
  answeredToken = payload.number();
  answeredProcess = static_cast<int>(payload.number());
  if (!payload.ok() || (hello.token != 0 && answeredToken != hello.token))
    return fail("somebody else answers");
  return State::Welcomed;
}

std::string Attempt::describe() const { return fmt::format("{} ({})", target.text(), reason); }

void awaitAny(std::vector<pollfd> entries) {
  constexpr int tenth = 100;
  ::poll(entries.data(), entries.size(), tenth);
}

} // namespace cleave::rt::tcp

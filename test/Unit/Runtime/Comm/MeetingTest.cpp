// How processes come to be connected over TCP, and what becomes of a meeting that not
// all come to, or too many.
#include "runtime/Comm/TCP/Meeting.h"
#include "runtime/Comm/TCP/Greeting.h"
#include "runtime/Comm/TCP/Presence.h"

#include <gtest/gtest.h>

#include <thread>

#include <sys/socket.h>
#include <unistd.h>

using namespace cleave::rt;
using namespace cleave::rt::tcp;

namespace {

using Result = StatusOr<std::vector<Contact>>;

/// A port that was free a moment ago.
uint16_t freePort() {
  int code = 0;
  std::string reason;
  const FileDescriptor socket = listenAt(lookUp("127.0.0.1", 0, reason).front(), code);
  return Address::localOf(socket.get()).port();
}

MeetingPlace place(int process, int processes, uint16_t port, std::string host = "127.0.0.1") {
  MeetingPlace made;
  made.process = process;
  made.processes = processes;
  made.host = std::move(host);
  made.ports = {port};
  made.given = "MASTER_PORT = " + std::to_string(port);
  made.run = "test";
  made.limit = std::chrono::seconds(20);
  return made;
}

std::vector<Result> unmet(size_t count) {
  std::vector<Result> results;
  for (size_t i = 0; i < count; ++i)
    results.emplace_back(std::vector<Contact>());
  return results;
}

/// All places are met at, each by a thread of its own.
std::vector<Result> meetAt(std::vector<MeetingPlace> places) {
  std::vector<Result> results = unmet(places.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < places.size(); ++i)
    threads.emplace_back([&, i] { results[i] = meet(places[i]); });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

std::string kindOf(const Result &result) {
  return result.ok() ? "met" : result.error().kind + ": " + result.error().message;
}

/// Each connection leads to whom it should: who is at its ends say their numbers.
void expectConnected(std::vector<Result> &results) {
  for (size_t a = 0; a < results.size(); ++a) {
    ASSERT_EQ(kindOf(results[a]), "met");
    ASSERT_EQ(results[a]->size(), results.size());
  }
  auto expectPair = [](const FileDescriptor &one, const FileDescriptor &other) {
    const uint64_t said = 4711;
    uint64_t heard = 0;
    ASSERT_EQ(::send(one.get(), &said, sizeof said, 0), static_cast<ssize_t>(sizeof said));
    pollfd entry{other.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 5000), 1);
    ASSERT_EQ(::recv(other.get(), &heard, sizeof heard, 0), static_cast<ssize_t>(sizeof heard));
    EXPECT_EQ(heard, said);
  };
  for (size_t a = 0; a < results.size(); ++a)
    for (size_t b = 0; b < results.size(); ++b)
      if (a != b)
        expectPair((*results[a])[b].messages, (*results[b])[a].messages);
  for (size_t a = 1; a < results.size(); ++a) {
    expectPair((*results[a])[0].control, (*results[0])[a].control);
    expectPair((*results[0])[a].control, (*results[a])[0].control);
  }
}

TEST(Meeting, AllAreConnectedWithAll) {
  for (const char *host : {"127.0.0.1", "localhost", "::1"})
    for (int processes : {2, 3, 7}) {
      const uint16_t port = freePort();
      std::vector<MeetingPlace> places;
      for (int process = 0; process < processes; ++process)
        places.push_back(place(process, processes, port, host));
      std::vector<Result> results = meetAt(places);
      expectConnected(results);
    }
}

TEST(Meeting, TheFirstMayComeLast) {
  const uint16_t port = freePort();
  std::vector<Result> results = unmet(3);
  std::vector<std::thread> threads;
  for (int process : {2, 1, 0}) {
    threads.emplace_back(
        [&, process] { results[static_cast<size_t>(process)] = meet(place(process, 3, port)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
  }
  for (std::thread &thread : threads)
    thread.join();
  expectConnected(results);
}

/// Behind the agent's port some are taken, by one that answers nothing and by a run
/// with another name.
TEST(Meeting, TheFirstFreePortIsTaken) {
  int code = 0;
  std::string reason;
  const uint16_t port = freePort();
  const Address address = lookUp("127.0.0.1", port, reason).front();
  const FileDescriptor mute = listenAt(address, code);
  ASSERT_TRUE(mute.valid());
  std::vector<MeetingPlace> places;
  for (int process = 0; process < 3; ++process) {
    places.push_back(place(process, 3, port));
    for (int next = 1; next < 7; ++next)
      places.back().ports.push_back(static_cast<uint16_t>(port + next));
  }
  std::vector<MeetingPlace> others;
  for (int process = 0; process < 2; ++process) {
    others.push_back(places[0]);
    others.back().process = process;
    others.back().processes = 2;
    others.back().run = "another";
  }
  std::vector<Result> results, otherResults;
  std::thread thread([&] { otherResults = meetAt(others); });
  results = meetAt(places);
  thread.join();
  expectConnected(results);
  expectConnected(otherResults);
}

TEST(Meeting, ATakenPortIsNamed) {
  int code = 0;
  std::string reason;
  const FileDescriptor taken = listenAt(lookUp("127.0.0.1", 0, reason).front(), code);
  const uint16_t port = Address::localOf(taken.get()).port();
  const Result result = meet(place(0, 2, port));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, "comm.port_taken");
  EXPECT_EQ(result.error().exitCode, ExitCode::User);
  EXPECT_NE(result.error().message.find("127.0.0.1:" + std::to_string(port) +
                                        " (Address already in use)"),
            std::string::npos)
      << result.error().message;
}

TEST(Meeting, WhoIsMissingIsNamed) {
  const uint16_t port = freePort();
  std::vector<MeetingPlace> places{place(0, 5, port), place(2, 5, port)};
  places[0].limit = places[1].limit = std::chrono::milliseconds(700);
  const std::vector<Result> results = meetAt(places);
  for (const Result &result : results) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().kind, "comm.unreachable");
    EXPECT_EQ(result.error().message.find("processes 1, 3, 4 of 5 did not come to process 0 on"),
              0u)
        << result.error().message;
  }
}

TEST(Meeting, AFirstOneThatIsNotThereIsNamed) {
  const uint16_t port = freePort();
  MeetingPlace made = place(1, 2, port);
  made.limit = std::chrono::milliseconds(300);
  const Result result = meet(made);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, "comm.no_leader");
  EXPECT_NE(
      result.error().given.find("127.0.0.1:" + std::to_string(port) + " (Connection refused)"),
      std::string::npos)
      << result.error().given;
  made.host = "no.such.host.invalid";
  const Result nowhere = meet(made);
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().kind, "comm.no_leader");
  EXPECT_NE(nowhere.error().given.find("no.such.host.invalid ("), std::string::npos);
}

TEST(Meeting, NumbersThatAreGivenTwiceAreRefused) {
  const uint16_t port = freePort();
  std::vector<MeetingPlace> places{place(0, 3, port), place(1, 3, port)};
  std::vector<Result> results;
  std::thread first([&] { results = meetAt(places); });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(kindOf(meet(place(1, 3, port))), "runtime.bad_launch: there are two processes 1");
  EXPECT_EQ(kindOf(meet(place(1, 8, port))),
            "runtime.bad_launch: process 1 was told of 8 processes, process 0 of 3");
  // The run is not harmed.
  const Result last = meet(place(2, 3, port));
  first.join();
  EXPECT_EQ(kindOf(last), "met");
  for (const Result &result : results)
    EXPECT_EQ(kindOf(result), "met");
}

/// Who connects and says nothing, or something else, or nearly the right thing.
TEST(Meeting, StrangersHarmNobody) {
  const uint16_t port = freePort();
  std::string reason;
  const Address address = lookUp("127.0.0.1", port, reason).front();
  std::vector<Result> results;
  std::thread meeting([&] { results = meetAt({place(0, 3, port), place(1, 3, port)}); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const Hello right{keyOf(place(1, 3, port)), Purpose::Control, 2, 3, 12345};
  Hello wrong = right;
  wrong.key += 1;
  auto framed = [](std::string_view payload) {
    const auto length = static_cast<uint32_t>(payload.size());
    std::string bytes(reinterpret_cast<const char *>(&length), sizeof length);
    bytes.push_back(static_cast<char>(FrameKind::Hello));
    return bytes.append(payload);
  };
  const std::string said[] = {"",
                              "GET / HTTP/1.1\r\n\r\n",
                              std::string(5000, '\0'),
                              framed(wrong.pack()),
                              framed(right.pack()), // a token that nobody made up
                              framed(right.pack()).substr(0, 20),
                              framed(std::string(2000, 'a'))};
  std::vector<FileDescriptor> strangers;
  for (const std::string &text : said) {
    int code = 0;
    strangers.push_back(beginConnection(address, code));
    ASSERT_EQ(code, 0);
    pollfd entry{strangers.back().get(), POLLOUT, 0};
    ASSERT_EQ(::poll(&entry, 1, 1000), 1);
    (void)::send(strangers.back().get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const Result last = meet(place(2, 3, port));
  meeting.join();
  EXPECT_EQ(kindOf(last), "met");
  for (const Result &result : results)
    EXPECT_EQ(kindOf(result), "met");
}

/// One that came and went before all were there.
TEST(Meeting, ALossEndsIt) {
  const uint16_t port = freePort();
  Result first{std::vector<Contact>()};
  std::thread meeting([&] { first = meet(place(0, 3, port)); });
  std::string reason;
  const Address address = lookUp("127.0.0.1", port, reason).front();
  auto join = [&](int process) {
    Attempt::State state = Attempt::State::Failed;
    std::optional<Attempt> attempt;
    while (state != Attempt::State::Welcomed) {
      if (state == Attempt::State::Failed)
        attempt.emplace(address, Hello{keyOf(place(0, 3, port)), Purpose::Messages, process, 3, 0},
                        Clock::now());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      state = attempt->advance(Clock::now());
    }
    Link link = attempt->take();
    Presence presence = Presence::ofSelf();
    presence.address = address;
    Packer packer;
    link.queue(FrameKind::Present, presence.pack(packer).take());
    link.write();
    return link;
  };
  {
    Link link = join(2);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  meeting.join();
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(kindOf(first), "comm.rank_lost: process 2 was lost before all had met");
  EXPECT_NE(first.error().given.find("process 2 on host "), std::string::npos);
}

} // namespace

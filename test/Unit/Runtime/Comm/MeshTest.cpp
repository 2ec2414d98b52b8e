// Messages over sockets: whole and in order for each sender and tag, whichever end is
// first, and what is no message or no connection any more is said to be so.
#include "runtime/Comm/TCP/Mesh.h"
#include "runtime/Comm/TCP/Stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <random>
#include <thread>

#include <sys/socket.h>
#include <unistd.h>

using namespace cleave::rt;
using namespace cleave::rt::tcp;

namespace {

/// As many processes, connected by pairs of sockets.
std::vector<std::unique_ptr<Mesh>> meshes(size_t count) {
  std::vector<std::vector<Contact>> contacts(count);
  for (auto &row : contacts)
    row.resize(count);
  for (size_t a = 0; a < count; ++a)
    for (size_t b = 0; b < a; ++b) {
      int pair[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
      contacts[a][b].messages = FileDescriptor(pair[0]);
      contacts[b][a].messages = FileDescriptor(pair[1]);
    }
  std::vector<std::unique_ptr<Mesh>> made;
  for (size_t i = 0; i < count; ++i)
    made.push_back(Mesh::create(static_cast<int>(i), std::move(contacts[i])));
  return made;
}

/// Bytes that tell where they belong.
std::vector<char> letter(size_t bytes, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<char> text(bytes);
  for (char &c : text)
    c = static_cast<char>(random());
  return text;
}

struct Call {
  CleaveTransport table;
  CleaveRequest request = {};
  int done = 0, bytes = 0, code = 0;

  bool ask() {
    if (!done && code == 0)
      code = table.test(table.context, &request, &done, &bytes);
    return done || code != 0;
  }
};

Call send(const CleaveTransport &table, const std::vector<char> &text, int to, int tag) {
  Call call{table};
  call.code =
      table.send(table.context, text.data(), static_cast<int>(text.size()), to, tag, &call.request);
  return call;
}

Call receive(const CleaveTransport &table, std::vector<char> &text, int from, int tag) {
  Call call{table};
  call.code = table.receive(table.context, text.data(), static_cast<int>(text.size()), from, tag,
                            &call.request);
  return call;
}

void finish(Call &one, Call &other) {
  for (bool isOver = false; !isOver;) {
    const bool first = one.ask(), second = other.ask();
    isOver = first && second;
  }
}

std::string describe(const CleaveTransport &table, int code) {
  char text[200] = "";
  table.describe(table.context, code, text, sizeof text);
  return text;
}

const size_t sizes[] = {0, 1, 1000, 65535, 65536, 65537, 3000001};

TEST(Mesh, WhoIsFirstDoesNotMatter) {
  auto both = meshes(2);
  const CleaveTransport a = both[0]->table(), b = both[1]->table();
  for (size_t size : sizes)
    for (bool receiverFirst : {false, true}) {
      const std::vector<char> text = letter(size, 1);
      std::vector<char> got(size, 'x');
      Call sent{a}, received{b};
      if (receiverFirst)
        received = receive(b, got, 0, 7);
      sent = send(a, text, 1, 7);
      for (int i = 0; i < 5; ++i)
        sent.ask();
      if (!receiverFirst)
        received = receive(b, got, 0, 7);
      finish(sent, received);
      EXPECT_EQ(sent.code, 0);
      EXPECT_EQ(received.bytes, static_cast<int>(size));
      EXPECT_EQ(got, text);
    }
}

TEST(Mesh, ALongMessageTakesNoPlaceOfShortOnes) {
  auto both = meshes(2);
  const CleaveTransport a = both[0]->table(), b = both[1]->table();
  const std::vector<char> longOne = letter(5000000, 1), shortOne = letter(10, 2);
  std::vector<char> gotLong(longOne.size()), gotShort(shortOne.size());
  Call first = send(a, longOne, 1, 1), second = send(a, shortOne, 1, 2);
  Call received = receive(b, gotShort, 0, 2);
  finish(second, received);
  EXPECT_EQ(gotShort, shortOne);
  EXPECT_FALSE(first.ask()) << "nobody has asked for it";
  Call last = receive(b, gotLong, 0, 1);
  finish(first, last);
  EXPECT_EQ(gotLong, longOne);
}

TEST(Mesh, LengthsAreTold) {
  auto both = meshes(2);
  const CleaveTransport a = both[0]->table(), b = both[1]->table();
  for (size_t size : {size_t{10}, size_t{100000}})
    for (bool receiverFirst : {false, true}) {
      std::vector<char> room(size), text = letter(size / 2, 3);
      Call received{b}, sent{a};
      if (receiverFirst)
        received = receive(b, room, 0, 1);
      sent = send(a, text, 1, 1);
      if (!receiverFirst)
        received = receive(b, room, 0, 1);
      finish(sent, received);
      EXPECT_EQ(received.bytes, static_cast<int>(size / 2));
      // And the other way round there is no room.
      std::vector<char> little(size / 2), much = letter(size, 4);
      if (receiverFirst)
        received = receive(b, little, 0, 1);
      sent = send(a, much, 1, 1);
      if (!receiverFirst)
        received = receive(b, little, 0, 1);
      finish(sent, received);
      EXPECT_EQ(received.bytes, -1);
      // What comes after is not harmed.
      received = receive(b, room, 0, 1);
      sent = send(a, much, 1, 1);
      finish(sent, received);
      EXPECT_EQ(room, much);
    }
}

/// Each sends to each, at random lengths and tags, and asks in another order.
TEST(Mesh, MessagesOfATagStayInOrder) {
  constexpr int count = 3, letters = 200, tags = 4;
  auto all = meshes(count);
  auto text = [](int from, int to, int tag, int number) {
    std::mt19937 random(static_cast<unsigned>(((from * count + to) * tags + tag) * letters) +
                        static_cast<unsigned>(number));
    const size_t size = random() % 3 == 0 ? random() % 300000 : random() % 3000;
    return letter(size, static_cast<int>(random() % 100000));
  };
  std::atomic<int> wrong = 0;
  auto work = [&](int self) {
    const CleaveTransport table = all[static_cast<size_t>(self)]->table();
    std::deque<std::vector<char>> kept;
    std::deque<Call> calls;
    std::vector<std::pair<size_t, std::vector<char>>> expected; // index in `kept`
    std::mt19937 random(static_cast<unsigned>(self));
    for (int number = 0; number < letters; ++number)
      for (int other = 0; other < count; ++other)
        for (int tag = 0; tag < tags && other != self; ++tag) {
          kept.push_back(text(self, other, tag, number));
          calls.push_back(send(table, kept.back(), other, tag));
          std::vector<char> want = text(other, self, tags - 1 - tag, number);
          kept.emplace_back(want.size());
          expected.emplace_back(kept.size() - 1, std::move(want));
          calls.push_back(receive(table, kept.back(), other, tags - 1 - tag));
          if (random() % 4 == 0)
            calls[random() % calls.size()].ask();
        }
    for (Call &call : calls)
      while (!call.ask()) {
      }
    for (const Call &call : calls)
      wrong += call.code != 0;
    for (const auto &[at, want] : expected)
      wrong += kept[at] != want;
  };
  std::vector<std::thread> threads;
  for (int self = 0; self < count; ++self)
    threads.emplace_back(work, self);
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Mesh, AllGetWhatAllGive) {
  constexpr size_t count = 5;
  auto all = meshes(count);
  std::vector<std::vector<int>> got(count, std::vector<int>(count));
  std::vector<std::thread> threads;
  for (size_t self = 0; self < count; ++self)
    threads.emplace_back([&, self] {
      const CleaveTransport table = all[self]->table();
      const int mine = static_cast<int>(self) * 11;
      EXPECT_EQ(table.allGather(table.context, &mine, sizeof mine, got[self].data()), 0);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::vector<int> &row : got)
    EXPECT_EQ(row, (std::vector<int>{0, 11, 22, 33, 44}));
}

TEST(Mesh, AConnectionThatEndsIsNamed) {
  auto all = meshes(3);
  const CleaveTransport a = all[0]->table(), c = all[2]->table();
  std::vector<char> room(10), text = letter(10, 1);
  Call fromLost = receive(a, room, 1, 1);
  // What it said before it went arrives.
  Call last = send(all[1]->table(), text, 0, 2);
  while (!last.ask()) {
  }
  all[1].reset();
  while (!fromLost.ask()) {
  }
  EXPECT_EQ(fromLost.code, 2);
  EXPECT_EQ(describe(a, fromLost.code), "process 1 at : it closed the connection");
  std::vector<char> heard(10);
  Call left = receive(a, heard, 1, 2);
  EXPECT_TRUE(left.ask());
  EXPECT_EQ(left.code, 0);
  EXPECT_EQ(heard, text);
  EXPECT_EQ(send(a, text, 1, 1).code, 2);
  // The others go on.
  Call received = receive(c, room, 0, 5), sent = send(a, text, 2, 5);
  finish(sent, received);
  EXPECT_EQ(room, text);
}

TEST(Mesh, WhatIsNoMessageEndsTheConnection) {
  auto frame = [](MessageHead head) {
    return std::string(reinterpret_cast<const char *>(&head), sizeof head);
  };
  const std::string strange[] = {
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      frame({.magic = 1}),
      frame({.kind = static_cast<MessageKind>(9)}),
      frame({.kind = MessageKind::Whole, .bytes = 1u << 30}),
      frame({.kind = MessageKind::Body, .bytes = 10, .receiver = 0}),
      frame({.kind = MessageKind::Body, .bytes = 10, .receiver = 1}), // was not accepted
      frame({.kind = MessageKind::Body, .bytes = 10, .receiver = ~uint64_t{0}}),
      frame({.kind = MessageKind::Accept, .sender = 77}) + "no more than noise, thirty-two bytes",
  };
  for (const std::string &bytes : strange) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    const FileDescriptor other(pair[1]);
    std::vector<Contact> contacts(2);
    contacts[1].messages = FileDescriptor(pair[0]);
    contacts[1].address = "10.0.0.2:4000";
    const auto mesh = Mesh::create(0, std::move(contacts));
    std::vector<char> room(10);
    Call call = receive(mesh->table(), room, 1, 1);
    ASSERT_EQ(::write(other.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    for (int i = 0; i < 1000 && call.code == 0; ++i)
      call.ask();
    EXPECT_EQ(describe(mesh->table(), call.code),
              "process 1 at 10.0.0.2:4000: what came is no message of Cleave's");
  }
}

TEST(Mesh, WhatWasReadBeforeIsNotLost) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
  const FileDescriptor other(pair[1]);
  const MessageHead head{.kind = MessageKind::Whole, .tag = 3, .bytes = 4};
  std::string bytes(reinterpret_cast<const char *>(&head), sizeof head);
  bytes += "wo";
  std::vector<Contact> contacts(2);
  contacts[1].messages = FileDescriptor(pair[0]);
  contacts[1].unread = bytes;
  const auto mesh = Mesh::create(0, std::move(contacts));
  std::vector<char> room(4);
  Call call = receive(mesh->table(), room, 1, 3);
  EXPECT_FALSE(call.ask());
  ASSERT_EQ(::write(other.get(), "rd", 2), 2);
  while (!call.ask()) {
  }
  EXPECT_EQ(std::string(room.begin(), room.end()), "word");
}

} // namespace

// The table of functions over the connections.
#include "runtime/Comm/TCP/Mesh.h"

#include "runtime/Comm/TCP/Peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>

#include <sys/epoll.h>

namespace cleave::rt::tcp {

namespace {

constexpr int highestTag = std::numeric_limits<int>::max() - 1;
/// Of the exchange at the start.
constexpr int startTag = highestTag + 1;
constexpr std::chrono::seconds limitOfStart{30};

/// Codes: 1 + the process whose connection failed, or this.
constexpr int badCall = -1;

class MeshImpl final : public Mesh {
public:
  MeshImpl(int self, std::vector<Contact> contacts);
  CleaveTransport table() override;

private:
  static MeshImpl &self(void *context) { return *static_cast<MeshImpl *>(context); }
  bool isPeer(int process) const {
    return process >= 0 && process < static_cast<int>(peers.size()) &&
           peers[static_cast<size_t>(process)];
  }
  int send(const void *data, int bytes, int to, int tag, CleaveRequest &request);
  int receive(void *data, int bytes, int from, int tag, CleaveRequest &request);
  int test(CleaveRequest &request, int &done, int &bytes);
  int allGather(const void *mine, int bytes, void *all);
  int connection(int process, int &socket);
  std::string describe(int code) const;
  void close();

  void move(int milliseconds);
  void write(Peer &peer);
  void fail(Peer &peer, int code);

  const int process;
  std::vector<std::unique_ptr<Peer>> peers;
  Operations operations;
  FileDescriptor events;
};

MeshImpl::MeshImpl(int self, std::vector<Contact> contacts)
    : process(self), events(::epoll_create1(EPOLL_CLOEXEC)) {
  for (size_t i = 0; i < contacts.size(); ++i) {
    peers.emplace_back();
    if (!contacts[i].messages.valid())
      continue;
    peers[i] = std::make_unique<Peer>(operations, static_cast<int>(i), std::move(contacts[i]));
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.ptr = peers[i].get();
    if (::epoll_ctl(events.get(), EPOLL_CTL_ADD, peers[i]->stream.descriptor(), &event) != 0)
      fail(*peers[i], errno);
    // What came before the meeting was over is in no socket any more.
    else if (const int code = peers[i]->stream.read(*peers[i]); code != 0)
      fail(*peers[i], code);
  }
}

void MeshImpl::fail(Peer &peer, int code) {
  peer.failure = code;
  ::epoll_ctl(events.get(), EPOLL_CTL_DEL, peer.stream.descriptor(), nullptr);
}

void MeshImpl::write(Peer &peer) {
  if (peer.failure != 0)
    return;
  const int code = peer.stream.write(
      [this](uint64_t number) { operations.at(number).state = Operation::State::Done; });
  if (code != 0)
    return fail(peer, code);
  if (peer.watchesWriting == peer.stream.wantsToWrite())
    return;
  peer.watchesWriting = !peer.watchesWriting;
  epoll_event event = {};
  event.events = EPOLLIN | (peer.watchesWriting ? EPOLLOUT : 0u);
  event.data.ptr = &peer;
  if (::epoll_ctl(events.get(), EPOLL_CTL_MOD, peer.stream.descriptor(), &event) != 0)
    fail(peer, errno);
}

void MeshImpl::move(int milliseconds) {
  constexpr int most = 64;
  epoll_event ready[most];
  const int count = ::epoll_wait(events.get(), ready, most, milliseconds);
  for (int i = 0; i < count; ++i) {
    Peer &peer = *static_cast<Peer *>(ready[i].data.ptr);
    if (ready[i].events & ~static_cast<uint32_t>(EPOLLOUT))
      if (const int code = peer.stream.read(peer); code != 0)
        fail(peer, code);
    write(peer);
  }
}

int MeshImpl::send(const void *data, int bytes, int to, int tag, CleaveRequest &request) {
  if (!isPeer(to) || bytes < 0 || tag < 0)
    return badCall;
  Peer &peer = *peers[static_cast<size_t>(to)];
  if (peer.failure != 0)
    return 1 + to;
  auto *const payload = static_cast<char *>(const_cast<void *>(data));
  const uint64_t number = operations.begin(true, to, payload, bytes);
  MessageHead head{.tag = tag, .bytes = static_cast<uint32_t>(bytes), .sender = number};
  const bool isWhole = operations.at(number).bytes <= longestWhole;
  head.kind = isWhole ? MessageKind::Whole : MessageKind::Announce;
  peer.stream.queue(head, payload, isWhole ? number : 0);
  write(peer);
  request.words[0] = number;
  return 0;
}

int MeshImpl::receive(void *data, int bytes, int from, int tag, CleaveRequest &request) {
  if (!isPeer(from) || bytes < 0 || tag < 0)
    return badCall;
  Peer &peer = *peers[static_cast<size_t>(from)];
  const uint64_t number = operations.begin(false, from, static_cast<char *>(data), bytes);
  peer.want(number, tag);
  write(peer);
  request.words[0] = number;
  return 0;
}

int MeshImpl::test(CleaveRequest &request, int &done, int &bytes) {
  const uint64_t number = request.words[0];
  done = 0;
  if (!operations.isUnderWay(number))
    return badCall;
  Operation &operation = operations.at(number);
  if (operation.state != Operation::State::Done)
    move(0);
  if (operation.state == Operation::State::Done) {
    done = 1;
    bytes = operation.received;
    operations.end(number);
    request.words[0] = 0;
    return 0;
  }
  return peers[static_cast<size_t>(operation.peer)]->failure != 0 ? 1 + operation.peer : 0;
}

int MeshImpl::allGather(const void *mine, int bytes, void *all) {
  auto *const gathered = static_cast<char *>(all);
  auto placeOf = [&](size_t index) {
    return gathered + static_cast<std::ptrdiff_t>(index) * bytes;
  };
  std::memcpy(placeOf(static_cast<size_t>(process)), mine, static_cast<size_t>(bytes));
  std::vector<CleaveRequest> open;
  for (size_t i = 0; i < peers.size(); ++i) {
    const int other = static_cast<int>(i);
    if (other == process)
      continue;
    open.emplace_back();
    if (const int code = receive(placeOf(i), bytes, other, startTag, open.back()); code != 0)
      return code;
    open.emplace_back();
    if (const int code = send(mine, bytes, other, startTag, open.back()); code != 0)
      return code;
  }
  const auto deadline = std::chrono::steady_clock::now() + limitOfStart;
  while (!open.empty()) {
    const size_t before = open.size();
    int code = 0;
    std::erase_if(open, [&](CleaveRequest &request) {
      int done = 0, length = 0;
      if (code == 0)
        code = test(request, done, length);
      return done != 0;
    });
    if (code != 0)
      return code;
    if (std::chrono::steady_clock::now() > deadline) {
      Peer &late = *peers[static_cast<size_t>(operations.at(open.front().words[0]).peer)];
      fail(late, ETIMEDOUT);
      return 1 + operations.at(open.front().words[0]).peer;
    }
    if (open.size() == before)
      move(10);
  }
  return 0;
}

int MeshImpl::connection(int other, int &socket) {
  if (!isPeer(other) || !peers[static_cast<size_t>(other)]->control.valid())
    return badCall;
  socket = peers[static_cast<size_t>(other)]->control.release();
  return 0;
}

std::string MeshImpl::describe(int code) const {
  if (!isPeer(code - 1))
    return "a call that means nothing";
  const Peer &peer = *peers[static_cast<size_t>(code - 1)];
  const char *what = peer.failure == Stream::closed    ? "it closed the connection"
                     : peer.failure == Stream::garbled ? "what came is no message of Cleave's"
                                                       : std::strerror(peer.failure);
  return fmt::format("process {} at {}: {}", code - 1, peer.address, what);
}

/// All that was to be sent has been, and has been asked for.
void MeshImpl::close() { peers.clear(); }

CleaveTransport MeshImpl::table() {
  CleaveTransport table = {};
  table.process = process;
  table.processes = static_cast<int>(peers.size());
  table.highestTag = highestTag;
  table.library = "TCP";
  table.context = this;
  table.allGather = [](void *context, const void *mine, int bytes, void *all) {
    return self(context).allGather(mine, bytes, all);
  };
  table.send = [](void *context, const void *data, int bytes, int to, int tag,
                  CleaveRequest *request) {
    return self(context).send(data, bytes, to, tag, *request);
  };
  table.receive = [](void *context, void *data, int bytes, int from, int tag,
                     CleaveRequest *request) {
    return self(context).receive(data, bytes, from, tag, *request);
  };
  table.test = [](void *context, CleaveRequest *request, int *done, int *bytes) {
    return self(context).test(*request, *done, *bytes);
  };
  table.describe = [](void *context, int code, char *text, int capacity) {
    const std::string words = self(context).describe(code);
    const size_t count = std::min(words.size(), static_cast<size_t>(capacity) - 1);
    std::memcpy(text, words.data(), count);
    text[count] = '\0';
  };
  table.close = [](void *context) {
    self(context).close();
    return 0;
  };
  table.connection = [](void *context, int process, int *socket) {
    return self(context).connection(process, *socket);
  };
  return table;
}

} // namespace

std::unique_ptr<Mesh> Mesh::create(int self, std::vector<Contact> contacts) {
  return std::make_unique<MeshImpl>(self, std::move(contacts));
}

} // namespace cleave::rt::tcp

// Sending and receiving without copies of what is long.
#include "runtime/Comm/TCP/Stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>

namespace cleave::rt::tcp {

namespace {

constexpr size_t stageBytes = size_t{1} << 16;
/// Below, a read of its own is not worth it.
constexpr size_t directBytes = size_t{1} << 14;
/// For one call: others wait to get at the transport.
constexpr size_t mostAtOnce = size_t{1} << 22;

bool isNotNow(int code) { return code == EAGAIN || code == EWOULDBLOCK; }

} // namespace

Stream::Stream(FileDescriptor socket, std::string unread)
    : socket(std::move(socket)), stage(std::max(stageBytes, unread.size())),
      stageEnd(unread.size()) {
  std::ranges::copy(unread, stage.begin());
}

void Stream::queue(const MessageHead &head, const char *payload, uint64_t ends) {
  outgoing.push_back({head, payload, 0, ends});
}

int Stream::write(FunctionRef<void(uint64_t)> isOver) {
  size_t budget = mostAtOnce;
  while (!outgoing.empty() && budget > 0) {
    Outgoing &first = outgoing.front();
    const size_t total = sizeof first.head + (first.head.hasPayload() ? first.head.bytes : 0);
    iovec parts[2];
    int count = 0;
    if (first.sent < sizeof first.head)
      parts[count++] = {reinterpret_cast<char *>(&first.head) + first.sent,
                        sizeof first.head - first.sent};
    const size_t at = std::max(first.sent, sizeof first.head) - sizeof first.head;
    if (const size_t rest = total - sizeof first.head - at; rest > 0)
      parts[count++] = {const_cast<char *>(first.payload) + at, std::min(rest, budget)};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<size_t>(count);
    const ssize_t sent = ::sendmsg(socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR)
        continue;
      return isNotNow(errno) ? 0 : errno;
    }
    first.sent += static_cast<size_t>(sent);
    budget -= std::min(budget, static_cast<size_t>(sent));
    if (first.sent < total)
      continue;
    if (first.ends != 0)
      isOver(first.ends);
    outgoing.pop_front();
  }
  return 0;
}

/// Hands on what lies in the stage.
int Stream::takeStaged(StreamReader &reader) {
  while (true) {
    if (!hasHead) {
      if (stageEnd - stageBegin < sizeof head)
        return 0;
      std::memcpy(&head, stage.data() + stageBegin, sizeof head);
      stageBegin += sizeof head;
      left = head.hasPayload() ? head.bytes : 0;
      target = nullptr;
      if (head.magic != MessageHead::itsMagic || !reader.place(head, target))
        return garbled;
      hasHead = true;
    }
    const size_t count = std::min(left, stageEnd - stageBegin);
    if (target && count > 0) {
      std::memcpy(target, stage.data() + stageBegin, count);
      target += count;
    }
    stageBegin += count;
    left -= count;
    if (left > 0)
      return 0;
    hasHead = false;
    reader.arrived(head);
  }
}

int Stream::read(StreamReader &reader) {
  for (size_t total = 0; total < mostAtOnce;) {
    if (const int code = takeStaged(reader); code != 0)
      return code;
    // What is left of the stage is the beginning of a head, or nothing.
    std::memmove(stage.data(), stage.data() + stageBegin, stageEnd - stageBegin);
    stageEnd -= stageBegin;
    stageBegin = 0;
    const bool isDirect = hasHead && target && left >= directBytes;
    char *const to = isDirect ? target : stage.data() + stageEnd;
    const size_t room = isDirect ? std::min(left, mostAtOnce) : stage.size() - stageEnd;
    const ssize_t got = ::recv(socket.get(), to, room, MSG_DONTWAIT);
    if (got == 0)
      return closed;
    if (got < 0) {
      if (errno == EINTR)
        continue;
      return isNotNow(errno) ? 0 : errno;
    }
    total += static_cast<size_t>(got);
    if (!isDirect) {
      stageEnd += static_cast<size_t>(got);
      continue;
    }
    target += got;
    left -= static_cast<size_t>(got);
    if (left == 0) {
      hasHead = false;
      reader.arrived(head);
    }
  }
  return takeStaged(reader);
}

} // namespace cleave::rt::tcp

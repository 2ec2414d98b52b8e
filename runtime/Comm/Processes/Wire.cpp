// Packing, and sockets that do not block.
#include "runtime/Comm/Processes/Wire.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>

namespace cleave::rt {

namespace {

/// No frame is as long; what claims to be is not from us.
constexpr uint32_t longestFrame = 1 << 24;
constexpr size_t headBytes = 5;
constexpr size_t mostAtOnce = 1 << 16;

} // namespace

Packer &Packer::number(uint64_t value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
  return *this;
}

Packer &Packer::text(std::string_view value) {
  number(value.size());
  bytes.append(value);
  return *this;
}

Packer &Packer::error(const Error &error) {
  auto place = [this](const Where &where) {
    text(where.file).number(static_cast<uint64_t>(where.line));
    number(static_cast<uint64_t>(where.column));
  };
  number(static_cast<uint64_t>(error.exitCode)).text(error.kind).text(error.message);
  place(error.where);
  text(error.given).text(error.rule).number(error.suggestions.size());
  for (const std::string &suggestion : error.suggestions)
    text(suggestion);
  number(error.notes.size());
  for (const Note &note : error.notes) {
    place(note.where);
    text(note.message);
  }
  return *this;
}

uint64_t Unpacker::number() {
  uint64_t value = 0;
  if (bytes.size() < sizeof value) {
    good = false;
    bytes = {};
    return 0;
  }
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

std::string Unpacker::text() {
  const uint64_t size = number();
  if (size > bytes.size()) {
    good = false;
    bytes = {};
    return {};
  }
  std::string value(bytes.substr(0, size));
  bytes.remove_prefix(size);
  return value;
}

Error Unpacker::error() {
  auto place = [this] {
    Where where;
    where.file = text();
    where.line = static_cast<int>(number());
    where.column = static_cast<int>(number());
    return where;
  };
  Error error;
  error.exitCode = static_cast<ExitCode>(number());
  error.kind = text();
  error.message = text();
  error.where = place();
  error.given = text();
  error.rule = text();
  for (uint64_t left = number(); left > 0 && good; --left)
    error.suggestions.push_back(text());
  for (uint64_t left = number(); left > 0 && good; --left) {
    Note note;
    note.where = place();
    note.message = text();
    error.notes.push_back(std::move(note));
  }
  return error;
}

void Link::queue(FrameKind kind, std::string_view payload) {
  const auto length = static_cast<uint32_t>(payload.size());
  outgoing.append(reinterpret_cast<const char *>(&length), sizeof length);
  outgoing.push_back(static_cast<char>(kind));
  outgoing.append(payload);
}

bool Link::write() {
  while (!outgoing.empty()) {
    const ssize_t sent =
        ::send(socket.get(), outgoing.data(), outgoing.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0)
      outgoing.erase(0, static_cast<size_t>(sent));
    else if (errno == EINTR)
      continue;
    else
      return errno == EAGAIN || errno == EWOULDBLOCK;
  }
  return true;
}

bool Link::read() {
  char buffer[4096];
  // So much at a time that one who never stops does not hold up the others.
  for (size_t before = incoming.size(); incoming.size() - before < mostAtOnce;) {
    const ssize_t got = ::recv(socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0)
      incoming.append(buffer, static_cast<size_t>(got));
    else if (got < 0 && errno == EINTR)
      continue;
    else
      return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
  return true;
}

std::optional<Frame> Link::next() {
  uint32_t length = 0;
  if (incoming.size() < headBytes)
    return std::nullopt;
  std::memcpy(&length, incoming.data(), sizeof length);
  if (length > longestFrame) {
    close();
    return std::nullopt;
  }
  if (incoming.size() < headBytes + length)
    return std::nullopt;
  Frame frame{static_cast<FrameKind>(incoming[4]), incoming.substr(headBytes, length)};
  incoming.erase(0, headBytes + length);
  return frame;
}

} // namespace cleave::rt

// Frames of the control connections: a length, a kind and numbers and texts behind
// it, in the machine's byte order (all processes run one binary). Internal to
// Comm/Processes and Comm/TCP.
#pragma once

#include "runtime/Base/Files.h"
#include "runtime/Base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cleave::rt {

enum class FrameKind : uint8_t {
  /// I am process N (number), of the run with this token (number).
  Hello,
  /// I run; flags and progress (numbers), see Whereabouts.
  Alive,
  /// A failure here (process → leader), or the failure of the run (leader → all).
  Failure,
  /// I have come to the next meeting, with these facts.
  Meet,
  /// All have.
  Proceed,
  /// I leave in order.
  Bye,
  /// Of the meeting over TCP (Comm/TCP/Meeting.h): you are welcome; I am there, at this
  /// address; this is where all are; I have connections to all; so have all.
  Welcome,
  Present,
  Table,
  Ready,
  Go,
};

/// Builds the payload of a frame.
class Packer {
public:
  Packer &number(uint64_t value);
  Packer &text(std::string_view value);
  Packer &error(const Error &error);
  std::string take() { return std::move(bytes); }

private:
  std::string bytes;
};

/// Reads what a Packer built. After a read beyond the end all values are empty and
/// `ok` is false.
class Unpacker {
public:
  explicit Unpacker(std::string_view bytes) : bytes(bytes) {}
  uint64_t number();
  std::string text();
  Error error();
  bool ok() const { return good; }

private:
  std::string_view bytes;
  bool good = true;
};

struct Frame {
  FrameKind kind = FrameKind::Alive;
  std::string payload;
};

/// One end of a control connection, not blocking.
class Link {
public:
  Link() = default;
  explicit Link(FileDescriptor socket) : socket(std::move(socket)) {}

  int descriptor() const { return socket.get(); }
  bool isOpen() const { return socket.valid(); }
  bool wantsToWrite() const { return !outgoing.empty(); }
  void close() { socket = FileDescriptor(); }
  /// Bytes that have come and are no whole frame yet.
  size_t unread() const { return incoming.size(); }
  /// Hands over the socket, with what has been read of it and not been asked for.
  FileDescriptor release(std::string &unread) {
    unread = std::move(incoming);
    return std::move(socket);
  }

  void queue(FrameKind kind, std::string_view payload);
  /// Sends what the system takes now. False if the other end is gone.
  bool write();
  /// Reads what has come. False if the other end is gone.
  bool read();
  /// The next frame that has come whole.
  std::optional<Frame> next();

private:
  FileDescriptor socket;
  std::string incoming, outgoing;
};

} // namespace cleave::rt

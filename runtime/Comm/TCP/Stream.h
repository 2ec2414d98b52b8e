// Frames of messages over one socket, both ways, as far as that goes without waiting.
// What is sent is taken from where it lies, what comes is put where it belongs.
// Internal to Comm/TCP.
#pragma once

#include "runtime/Base/Files.h"
#include "runtime/Base/FunctionRef.h"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace cleave::rt::tcp {

enum class MessageKind : uint8_t {
  /// A short message, at once.
  Whole = 1,
  /// There is a long one.
  Announce,
  /// Its receiver has a place for it, or, with a tag of −1, none as large.
  Accept,
  /// It.
  Body,
};

/// What stands before each message, in the machine's byte order.
struct MessageHead {
  static constexpr uint32_t itsMagic = 0x43764c31;
  uint32_t magic = itsMagic;
  MessageKind kind = MessageKind::Whole;
  uint8_t zero[3] = {};
  int32_t tag = 0;
  /// Bytes of the message, which follow a Whole and a Body.
  uint32_t bytes = 0;
  /// Numbers of the operation at either end, where they are known.
  uint64_t sender = 0, receiver = 0;

  bool hasPayload() const { return kind == MessageKind::Whole || kind == MessageKind::Body; }
};
static_assert(sizeof(MessageHead) == 32);

/// Takes what comes.
class StreamReader {
public:
  virtual ~StreamReader() = default;
  /// Where the payload of `head` goes; null: nowhere. False if there is no such message.
  virtual bool place(const MessageHead &head, char *&target) = 0;
  /// It has come whole.
  virtual void arrived(const MessageHead &head) = 0;
};

class Stream {
public:
  /// What `read` and `write` return beside values of errno.
  static constexpr int closed = -1, garbled = -2;

  Stream(FileDescriptor socket, std::string unread);

  int descriptor() const { return socket.get(); }
  bool wantsToWrite() const { return !outgoing.empty(); }

  /// `payload` must stay until the operation `ends`, which may be 0, is said to be over.
  void queue(const MessageHead &head, const char *payload, uint64_t ends);
  /// Sends what the system takes now. 0, or why the connection is of no more use.
  int write(FunctionRef<void(uint64_t operation)> isOver);
  /// Reads what has come, some megabytes at most. 0, or as for `write`.
  int read(StreamReader &reader);

private:
  struct Outgoing {
    MessageHead head;
    const char *payload;
    size_t sent; // of head and payload
    uint64_t ends;
  };
  int takeStaged(StreamReader &reader);

  FileDescriptor socket;
  std::deque<Outgoing> outgoing;
  /// Read and not taken yet.
  std::vector<char> stage;
  size_t stageBegin = 0, stageEnd = 0;
  /// The message in progress.
  bool hasHead = false;
  MessageHead head;
  char *target = nullptr;
  size_t left = 0;
};

} // namespace cleave::rt::tcp

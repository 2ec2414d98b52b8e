// The connection to one process: which message goes to which receive. Internal to
// Comm/TCP.
#pragma once

#include "runtime/Comm/TCP/Meeting.h"
#include "runtime/Comm/TCP/Operations.h"
#include "runtime/Comm/TCP/Stream.h"

#include <memory>
#include <unordered_map>

namespace cleave::rt::tcp {

/// A longer message waits for its receiver.
inline constexpr size_t longestWhole = size_t{1} << 16;

class Peer final : public StreamReader {
public:
  Peer(Operations &operations, int process, Contact contact)
      : address(std::move(contact.address)), control(std::move(contact.control)),
        stream(std::move(contact.messages), std::move(contact.unread)), operations(operations),
        process(process) {}

  bool place(const MessageHead &head, char *&target) override;
  void arrived(const MessageHead &head) override;
  /// A receive that has just been posted.
  void want(uint64_t operation, int tag);

  const std::string address;
  FileDescriptor control;
  Stream stream;
  bool watchesWriting = false;
  /// Why the connection is of no more use.
  int failure = 0;

private:
  /// A message that nobody has asked for yet.
  struct Early {
    size_t bytes = 0;
    /// Of one that was announced; else the message itself.
    uint64_t sender = 0;
    std::vector<char> data;
    bool isWhole = false;
    /// The receive that asked for it before it was whole.
    uint64_t wantedBy = 0;
  };

  struct Queue {
    std::deque<uint64_t> wanted;
    std::deque<std::shared_ptr<Early>> early;
  };
  void accept(uint64_t operation, size_t bytes, uint64_t sender);

  Operations &operations;
  const int process;
  std::unordered_map<int, Queue> queues;
  /// Where the short message in progress goes.
  uint64_t incoming = 0;
  std::shared_ptr<Early> incomingEarly;
};

} // namespace cleave::rt::tcp

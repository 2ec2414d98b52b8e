// Matching of what comes with what is wanted, in order for each tag.
#include "runtime/Comm/TCP/Peer.h"

namespace cleave::rt::tcp {

bool Peer::place(const MessageHead &head, char *&target) {
  if (head.kind == MessageKind::Body) {
    Operation *const operation = operations.find(head.receiver, process, false);
    if (!operation || operation->state != Operation::State::Accepted ||
        head.bytes > operation->bytes)
      return false;
    target = operation->data;
    return true;
  }
  if (head.kind != MessageKind::Whole)
    return head.kind == MessageKind::Announce || head.kind == MessageKind::Accept;
  if (head.bytes > longestWhole)
    return false;
  Queue &queue = queues[head.tag];
  incoming = 0;
  if (!queue.wanted.empty()) {
    incoming = queue.wanted.front();
    queue.wanted.pop_front();
    const Operation &operation = operations.at(incoming);
    target = head.bytes <= operation.bytes ? operation.data : nullptr;
    return true;
  }
  incomingEarly = std::make_shared<Early>();
  incomingEarly->bytes = head.bytes;
  incomingEarly->data.resize(head.bytes);
  target = incomingEarly->data.data();
  queue.early.push_back(incomingEarly);
  return true;
}

void Peer::arrived(const MessageHead &head) {
  switch (head.kind) {
  case MessageKind::Whole:
    if (incoming != 0)
      return operations.finishReceive(incoming, head.bytes, nullptr);
    incomingEarly->isWhole = true;
    if (incomingEarly->wantedBy != 0)
      operations.finishReceive(incomingEarly->wantedBy, head.bytes, incomingEarly->data.data());
    incomingEarly.reset();
    return;
  case MessageKind::Announce: {
    Queue &queue = queues[head.tag];
    if (queue.wanted.empty()) {
      auto early = std::make_shared<Early>();
      early->bytes = head.bytes;
      early->sender = head.sender;
      queue.early.push_back(std::move(early));
      return;
    }
    const uint64_t operation = queue.wanted.front();
    queue.wanted.pop_front();
    return accept(operation, head.bytes, head.sender);
  }
  case MessageKind::Accept: {
    Operation *const operation = operations.find(head.sender, process, true);
    if (!operation || operation->state != Operation::State::Waiting)
      return;
    operation->state = Operation::State::Accepted;
    if (head.tag < 0) {
      operation->state = Operation::State::Done;
      return;
    }
    stream.queue({.kind = MessageKind::Body,
                  .bytes = static_cast<uint32_t>(operation->bytes),
                  .receiver = head.receiver},
                 operation->data, head.sender);
    return;
  }
  case MessageKind::Body:
    operations.finishReceive(head.receiver, head.bytes, nullptr);
  }
}

/// A long message may come, unless there is no room for it.
void Peer::accept(uint64_t number, size_t bytes, uint64_t sender) {
  Operation &operation = operations.at(number);
  const bool fits = bytes <= operation.bytes;
  stream.queue(
      {.kind = MessageKind::Accept, .tag = fits ? 0 : -1, .sender = sender, .receiver = number},
      nullptr, 0);
  operation.state = Operation::State::Accepted;
  if (!fits)
    operations.finishReceive(number, bytes, nullptr);
}

void Peer::want(uint64_t number, int tag) {
  Queue &queue = queues[tag];
  if (queue.early.empty()) {
    queue.wanted.push_back(number);
    return;
  }
  const std::shared_ptr<Early> early = queue.early.front();
  queue.early.pop_front();
  if (early->sender != 0)
    accept(number, early->bytes, early->sender);
  else if (early->isWhole)
    operations.finishReceive(number, early->bytes, early->data.data());
  else
    early->wantedBy = number;
}

} // namespace cleave::rt::tcp

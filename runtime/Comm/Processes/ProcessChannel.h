// A channel between ranks in two processes: messages of the transport under a tag of
// its own. The sender copies a message aside and goes on, as long as it has room for
// it; the receiver gets it where it wants it. Internal to Comm/Processes.
#pragma once

#include "runtime/Comm/Local/RankChannel.h"
#include "runtime/Comm/Processes/MessagePort.h"
#include "runtime/Comm/Processes/SendPump.h"

#include <mutex>

namespace cleave::rt {

/// The end in this process.
class ProcessChannel final : public RankChannel {
public:
  /// `other`: the process of the other end. `tag`: used by this channel alone.
  /// `pump`: woken for what is sent, so that it calls `moveOn`.
  ProcessChannel(const ChannelPlan &plan, int other, int tag, MessagePort &port, SendPump &pump);

  Outcome send(SentPieces pieces, Status &failure) override;
  Outcome receive(ReceivedPieces pieces, Status &failure) override;
  /// The port's stop wakes whoever waits.
  void breakUp() override {}
  void leave(int) override {}
  Status finish() override;
  /// Moves on what is on its way, without waiting; false if nothing is.
  bool moveOn();

private:
  /// A message on its way.
  struct Message {
    explicit Message(MessagePort &port) : batch(port) {}
    std::vector<float> data; // as large as it was needed so far
    MessagePort::Batch batch;
  };
  const int other, tag;
  MessagePort &port;
  SendPump &pump;
  /// Of the sender; the receiver needs nothing but the port.
  std::mutex mutex;
  std::vector<Message> ring; // guarded by mutex
  size_t next = 0;
  /// What went wrong in `moveOn`: the next send says it.
  Status failed; // guarded by mutex
};

} // namespace cleave::rt

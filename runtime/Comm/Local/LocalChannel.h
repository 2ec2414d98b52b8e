// A channel between two threads of one process: a ring of messages in memory that
// both see. A receiver that waits already gets the message straight from where the
// sender has it. Internal to Comm.
#pragma once

#include "runtime/Comm/Local/RankChannel.h"

#include <condition_variable>
#include <mutex>

namespace cleave::rt {

class LocalChannel final : public RankChannel {
public:
  explicit LocalChannel(const ChannelPlan &plan)
      : RankChannel(plan), ring(static_cast<size_t>(plan.buffers)) {}

  Outcome send(SentPieces pieces, Status &failure) override;
  Outcome receive(ReceivedPieces pieces, Status &failure) override;
  void breakUp() override;
  void leave(int rank) override;

private:
  /// As large as they were needed so far; `next…` is the one that an end uses next.
  struct Message {
    std::vector<float> data;
    size_t count = 0;
  };
  std::vector<Message> ring;
  size_t nextSent = 0, nextReceived = 0; // each of one end alone

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  size_t held = 0;
  bool broken = false, senderLeft = false, receiverLeft = false;
  /// Of a receiver that waits at an empty channel.
  const ReceivedPieces *wanted = nullptr;
};

} // namespace cleave::rt

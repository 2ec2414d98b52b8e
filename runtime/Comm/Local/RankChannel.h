// A channel as the ranks of this process see it: one of its ends or both are here.
// Internal to Comm.
#pragma once

#include "runtime/Comm/Communicator.h"

namespace cleave::rt {

class RankChannel {
public:
  explicit RankChannel(const ChannelPlan &plan) : plan(plan) {}
  RankChannel(const RankChannel &) = delete;
  RankChannel &operator=(const RankChannel &) = delete;
  virtual ~RankChannel() = default;

  const ChannelKey &key() const { return plan.key; }
  int buffers() const { return plan.buffers; }

  using SentPieces = std::span<const std::span<const float>>;
  using ReceivedPieces = std::span<const std::span<float>>;

  enum class Outcome { Done, Broken };
  /// `Broken` if the run or the other end ended before; `failure` is set where the
  /// transfer itself failed. Called by the rank of that end alone.
  virtual Outcome send(SentPieces pieces, Status &failure) = 0;
  virtual Outcome receive(ReceivedPieces pieces, Status &failure) = 0;

  /// The run has ended: wakes whoever waits, and makes later calls fail.
  virtual void breakUp() = 0;
  /// `rank` has ended its work. What it has sent can still be received.
  virtual void leave(int rank) = 0;
  /// After all ranks here have ended well: waits until what was sent has left.
  virtual Status finish() { return {}; }

private:
  const ChannelPlan plan;
};

template <typename Pieces> size_t floatsOf(const Pieces &pieces) {
  size_t count = 0;
  for (const auto &piece : pieces)
    count += piece.size();
  return count;
}

/// `comm.mismatch`.
Error wrongLength(const ChannelKey &key, size_t sent, size_t expected);

} // namespace cleave::rt

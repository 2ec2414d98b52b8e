// Messages from rank to rank over the transport.
#include "runtime/Comm/Processes/ProcessChannel.h"

#include <algorithm>
#include <mutex>

namespace cleave::rt {

namespace {

/// What a stopped port says is no news: the run has ended elsewhere.
RankChannel::Outcome outcomeOf(Status status, Status &failure) {
  if (!status.ok() && status.error().kind == "comm.stopped")
    return RankChannel::Outcome::Broken;
  failure = std::move(status);
  return RankChannel::Outcome::Done;
}

} // namespace

ProcessChannel::ProcessChannel(const ChannelPlan &plan, int other, int tag, MessagePort &port,
                               SendPump &pump)
    : RankChannel(plan), other(other), tag(tag), port(port), pump(pump) {
  for (int i = 0; i < plan.buffers; ++i)
    ring.emplace_back(port);
}

ProcessChannel::Outcome ProcessChannel::send(SentPieces pieces, Status &failure) {
  // While this end waits itself it moves everything on, and the pump has no need to.
  const std::lock_guard<std::mutex> lock(mutex);
  if (!failed.ok())
    return outcomeOf(failed, failure);
  Message &message = ring[next];
  next = (next + 1) % ring.size();
  if (Status left = message.batch.wait(); !left.ok())
    return outcomeOf(std::move(left), failure);
  const size_t count = floatsOf(pieces);
  message.data.resize(std::max(message.data.size(), count));
  size_t at = 0;
  for (std::span<const float> piece : pieces) {
    std::copy_n(piece.data(), piece.size(), message.data.data() + at);
    at += piece.size();
  }
  // A message for each piece, since the other end has a place for each.
  at = 0;
  for (std::span<const float> piece : pieces) {
    if (Status begun = message.batch.send({message.data.data() + at, piece.size()}, other, tag);
        !begun.ok())
      return outcomeOf(std::move(begun), failure);
    at += piece.size();
  }
  pump.wake();
  return Outcome::Done;
}

ProcessChannel::Outcome ProcessChannel::receive(ReceivedPieces pieces, Status &failure) {
  MessagePort::Batch batch(port);
  for (std::span<float> piece : pieces)
    if (Status begun = batch.receive(piece, other, tag); !begun.ok())
      return outcomeOf(std::move(begun), failure);
  return outcomeOf(batch.wait(), failure);
}

bool ProcessChannel::moveOn() {
  const std::unique_lock<std::mutex> lock(mutex, std::try_to_lock);
  if (!lock.owns_lock())
    return true;
  bool isBusy = false;
  for (Message &message : ring) {
    const StatusOr<bool> done = message.batch.isDone();
    if (!done.ok()) {
      failed = done.status();
      return false;
    }
    isBusy = isBusy || !*done;
  }
  return isBusy;
}

Status ProcessChannel::finish() {
  const std::lock_guard<std::mutex> lock(mutex);
  CLEAVE_RT_RETURN_IF_ERROR(failed);
  for (Message &message : ring)
    CLEAVE_RT_RETURN_IF_ERROR(message.batch.wait());
  return {};
}

} // namespace cleave::rt

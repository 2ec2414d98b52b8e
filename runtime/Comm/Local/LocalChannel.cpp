// Sending and receiving in memory.
#include "runtime/Comm/Local/LocalChannel.h"

#include <fmt/format.h>

#include <algorithm>

namespace cleave::rt {

namespace {

/// Pieces of both sides may be cut differently; their floats follow each other.
void copyPieces(RankChannel::SentPieces from, RankChannel::ReceivedPieces to) {
  size_t piece = 0, at = 0;
  for (std::span<const float> source : from)
    while (!source.empty()) {
      if (at == to[piece].size()) {
        ++piece;
        at = 0;
        continue;
      }
      const size_t count = std::min(source.size(), to[piece].size() - at);
      std::copy_n(source.data(), count, to[piece].data() + at);
      source = source.subspan(count);
      at += count;
    }
}

} // namespace

Error wrongLength(const ChannelKey &key, size_t sent, size_t expected) {
  Error error =
      internalError(fmt::format("a message of {} from rank {} to rank {} has {} floats where {} "
                                "were expected",
                                nameOf(key.kind), key.from, key.to, sent, expected));
  error.kind = "comm.mismatch";
  return error;
}

LocalChannel::Outcome LocalChannel::send(SentPieces pieces, Status &) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return broken || receiverLeft || held < ring.size(); });
  if (broken || receiverLeft)
    return Outcome::Broken;
  // A message of another length goes into the ring, where the receiver finds it.
  if (held == 0 && wanted && floatsOf(*wanted) == floatsOf(pieces)) {
    copyPieces(pieces, *wanted);
    wanted = nullptr;
    lock.unlock();
    changed.notify_all();
    return Outcome::Done;
  }
  lock.unlock();
  // Nobody else touches a message that is not held.
  Message &message = ring[nextSent];
  nextSent = (nextSent + 1) % ring.size();
  message.count = floatsOf(pieces);
  message.data.resize(std::max(message.data.size(), message.count));
  size_t at = 0;
  for (std::span<const float> piece : pieces) {
    std::copy_n(piece.data(), piece.size(), message.data.data() + at);
    at += piece.size();
  }
  lock.lock();
  ++held;
  lock.unlock();
  changed.notify_all();
  return Outcome::Done;
}

LocalChannel::Outcome LocalChannel::receive(ReceivedPieces pieces, Status &failure) {
  std::unique_lock<std::mutex> lock(mutex);
  if (held == 0 && !broken && !senderLeft) {
    wanted = &pieces;
    changed.wait(lock, [&] { return broken || senderLeft || held > 0 || !wanted; });
    if (!wanted)
      return Outcome::Done;
    wanted = nullptr;
  }
  if (broken || held == 0)
    return Outcome::Broken;
  lock.unlock();
  const Message &message = ring[nextReceived];
  nextReceived = (nextReceived + 1) % ring.size();
  if (message.count != floatsOf(pieces)) {
    failure = wrongLength(key(), message.count, floatsOf(pieces));
    return Outcome::Done;
  }
  const std::span<const float> whole(message.data.data(), message.count);
  copyPieces({&whole, 1}, pieces);
  lock.lock();
  --held;
  lock.unlock();
  changed.notify_all();
  return Outcome::Done;
}

void LocalChannel::breakUp() {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    broken = true;
  }
  changed.notify_all();
}

void LocalChannel::leave(int rank) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    senderLeft = senderLeft || rank == key().from;
    receiverLeft = receiverLeft || rank == key().to;
  }
  changed.notify_all();
}

} // namespace cleave::rt

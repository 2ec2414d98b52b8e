// Messages of this process to and from others, over a transport that one thread at
// a time may use: the ranks here share it behind a lock, and none of them ever
// sleeps inside of it, so that the end of the run reaches all of them. Internal to
// Comm/Processes.
#pragma once

#include "runtime/Base/Status.h"
#include "runtime/Comm/Transport.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace cleave::rt {

class MessagePort {
public:
  /// `spin`: how long a wait keeps its core before it lets others run.
  MessagePort(const CleaveTransport &transport, std::chrono::nanoseconds spin)
      : transport(transport), spin(spin) {}

  int process() const { return transport.process; }
  int highestTag() const { return transport.highestTag; }

  /// How many messages have been sent or received.
  uint64_t progress() const { return finished; }
  /// Every wait, now and later, returns at once.
  void stop() { stopped = true; }

  /// Messages that one rank waits for together. Not to be shared.
  class Batch {
  public:
    explicit Batch(MessagePort &port) : port(&port) {}
    /// Begin a message of any length; the memory must stay until `wait` or, after
    /// a failure, until the process ends.
    Status send(std::span<const float> data, int to, int tag);
    Status receive(std::span<float> data, int from, int tag);
    /// Returns when all are done. `comm.stopped` if the port was stopped,
    /// `comm.mismatch` for a message of another length than its receiver expects,
    /// `comm.transport_failed` for what the library says.
    Status wait();
    /// Asks once, and does not wait: whether all are done. Kinds as for `wait`.
    StatusOr<bool> isDone();
    /// The same as `wait` for all but the newest `count` messages.
    Status waitAllBut(size_t count);

  private:
    struct Message {
      CleaveRequest request;
      int bytes;
      int from; // −1 for one that is sent
    };
    Status test(size_t end, size_t &open);
    MessagePort *port;
    std::vector<Message> messages;
  };

private:
  Status failed(int code, const char *what);

  const CleaveTransport &transport;
  const std::chrono::nanoseconds spin;
  std::mutex mutex; // held inside the transport
  std::atomic<bool> stopped{false};
  std::atomic<uint64_t> finished{0};
};

} // namespace cleave::rt

// Posting, and waiting by asking again.
#include "runtime/Comm/Processes/MessagePort.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

namespace cleave::rt {

namespace {

/// Bytes of one message of the library, whose lengths are ints.
constexpr size_t pieceFloats = size_t{1} << 26;

/// How long an error of the library waits for a better one: when a process dies,
/// its partners' libraries may notice before the news of it comes.
constexpr std::chrono::seconds patience{3};

Error stoppedError() {
  Error error = runError("comm.stopped", "the run ended while this rank waited");
  return error;
}

/// Lets others run, the longer it has lasted the more of them.
class Backoff {
public:
  explicit Backoff(std::chrono::nanoseconds spin) : start(Clock::now()), spin(spin) {}
  void pause() {
    const auto waited = Clock::now() - start;
    if (waited < spin)
      return;
    if (waited < spin + std::chrono::microseconds(200))
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(
          std::chrono::microseconds(waited < std::chrono::milliseconds(5) ? 20 : 100));
  }

private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start;
  const std::chrono::nanoseconds spin;
};

} // namespace

Status MessagePort::failed(int code, const char *what) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!stopped && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (stopped)
    return stoppedError();
  char text[512] = "";
  transport.describe(transport.context, code, text, sizeof text);
  return runError("comm.transport_failed",
                  fmt::format("{} failed to {} a message: {}", transport.library, what, text))
      .withRule("the processes of a run can reach each other until its end")
      .suggest("look at what the system says about the network; --resume goes on from the newest "
               "checkpoint");
}

Status MessagePort::Batch::send(std::span<const float> data, int to, int tag) {
  for (size_t at = 0; at < data.size(); at += pieceFloats) {
    const auto piece = data.subspan(at, std::min(pieceFloats, data.size() - at));
    Message message{{}, static_cast<int>(piece.size_bytes()), -1};
    int code = 0;
    {
      const std::lock_guard<std::mutex> lock(port->mutex);
      if (port->stopped)
        return stoppedError();
      code = port->transport.send(port->transport.context, piece.data(), message.bytes, to, tag,
                                  &message.request);
    }
    if (code != 0)
      return port->failed(code, "send");
    messages.push_back(message);
  }
  return {};
}

Status MessagePort::Batch::receive(std::span<float> data, int from, int tag) {
  for (size_t at = 0; at < data.size(); at += pieceFloats) {
    const auto piece = data.subspan(at, std::min(pieceFloats, data.size() - at));
    Message message{{}, static_cast<int>(piece.size_bytes()), from};
    int code = 0;
    {
      const std::lock_guard<std::mutex> lock(port->mutex);
      if (port->stopped)
        return stoppedError();
      code = port->transport.receive(port->transport.context, piece.data(), message.bytes, from,
                                     tag, &message.request);
    }
    if (code != 0)
      return port->failed(code, "receive");
    messages.push_back(message);
  }
  return {};
}

/// Asks after the first `end` messages and drops those that are done; `open` is how
/// many are left of them.
Status MessagePort::Batch::test(size_t end, size_t &open) {
  size_t kept = 0;
  int code = 0;
  std::optional<Message> wrong;
  int length = 0;
  {
    const std::lock_guard<std::mutex> lock(port->mutex);
    if (port->stopped)
      return stoppedError();
    for (size_t i = 0; i < end; ++i) {
      int done = 0, bytes = 0;
      if (code == 0 && !wrong)
        code = port->transport.test(port->transport.context, &messages[i].request, &done, &bytes);
      if (done && messages[i].from >= 0 && bytes != messages[i].bytes) {
        wrong = messages[i];
        length = bytes;
      }
      if (done)
        ++port->finished;
      else
        messages[kept++] = messages[i];
    }
  }
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(kept),
                 messages.begin() + static_cast<std::ptrdiff_t>(end));
  open = kept;
  if (code != 0)
    return port->failed(code, "receive");
  if (!wrong)
    return {};
  Error error = internalError(fmt::format("{} bytes came from process {}, where {} were expected",
                                          length < 0 ? "more" : fmt::to_string(length), wrong->from,
                                          wrong->bytes));
  error.kind = "comm.mismatch";
  return error;
}

Status MessagePort::Batch::waitAllBut(size_t count) {
  if (messages.size() <= count)
    return {};
  size_t open = messages.size() - count;
  Backoff backoff(port->spin);
  while (true) {
    CLEAVE_RT_RETURN_IF_ERROR(test(open, open));
    if (open == 0)
      return {};
    backoff.pause();
  }
}

StatusOr<bool> MessagePort::Batch::isDone() {
  size_t open = messages.size();
  if (open > 0)
    CLEAVE_RT_RETURN_IF_ERROR(test(open, open));
  return open == 0;
}

Status MessagePort::Batch::wait() { return waitAllBut(0); }

} // namespace cleave::rt

// How two processes of a run make each other's acquaintance: who connects says who it
// is and of which run, who listens answers with the run's token. A stranger, and one
// of another run, is turned away and harms nobody: it is given little time and no
// memory to speak of, and neither side believes the other before it has heard this.
// Internal to Comm/TCP.
#pragma once

#include "runtime/Comm/Processes/Wire.h"
#include "runtime/Comm/TCP/Sockets.h"

#include <chrono>

#include <poll.h>

namespace cleave::rt::tcp {

using Clock = std::chrono::steady_clock;

/// What a connection is for.
enum class Purpose : uint8_t {
  /// Messages; to the first process also what is said at the meeting.
  Messages,
  /// The control plane's, to the first process.
  Control,
};

/// Who connects.
struct Hello {
  /// What processes of one run have in common from the start.
  uint64_t key = 0;
  Purpose purpose = Purpose::Messages;
  int process = 0, processes = 0;
  /// What the first process made up for this run; 0 before it is known.
  uint64_t token = 0;

  std::string pack() const;
  static std::optional<Hello> unpack(const Frame &frame);
};

/// One that has said hello. Whoever lets it in answers with `welcome`.
struct Guest {
  Link link;
  Hello hello;
};
void welcome(Link &link, uint64_t key, uint64_t token, int process);
/// Tells why not; the link can be closed then.
void turnAway(Link &link, const Error &error);

/// Those who have knocked and not said who they are.
class Door {
public:
  explicit Door(std::vector<FileDescriptor> listeners) : listeners(std::move(listeners)) {}

  void watch(std::vector<pollfd> &entries) const;
  /// Lets in who has said a whole hello with this key, and this token if it is not 0.
  std::vector<Guest> admit(uint64_t key, uint64_t token);
  /// How many were no part of this run.
  int strangers() const { return turnedAway; }

private:
  struct Knock {
    Link link;
    Clock::time_point until;
  };
  std::vector<FileDescriptor> listeners;
  std::vector<Knock> knocks;
  int turnedAway = 0;
};

/// One attempt to reach a process that listens.
class Attempt {
public:
  Attempt(const Address &address, const Hello &hello, Clock::time_point now);

  enum class State { UnderWay, Welcomed, TurnedAway, Failed };
  void watch(std::vector<pollfd> &entries) const;
  /// Goes as far as it can without waiting.
  State advance(Clock::time_point now);

  const Address &address() const { return target; }
  /// If welcomed: the connection, and what was answered.
  Link take() { return std::move(link); }
  uint64_t token() const { return answeredToken; }
  int process() const { return answeredProcess; }
  /// If turned away: what was said.
  const Error &refusal() const { return *said; }
  /// If failed: "10.0.0.1:29500 (Connection refused)".
  std::string describe() const;

private:
  State fail(std::string why);

  Address target;
  Hello hello;
  Clock::time_point until;
  Link link;
  bool isConnected = false;
  uint64_t answeredToken = 0;
  int answeredProcess = -1;
  std::optional<Error> said;
  std::string reason;
};

/// Sleeps until one of `entries` has something, for a tenth of a second at most.
void awaitAny(std::vector<pollfd> entries);

} // namespace cleave::rt::tcp

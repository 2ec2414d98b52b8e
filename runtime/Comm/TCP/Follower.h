// The side of a meeting over TCP of all processes but the first. Internal to Comm/TCP.
#pragma once

#include "runtime/Comm/TCP/Greeting.h"
#include "runtime/Comm/TCP/Presence.h"

namespace cleave::rt::tcp {

class Follower {
public:
  explicit Follower(const MeetingPlace &place);
  StatusOr<std::vector<Contact>> run();

private:
  /// Finds the first process.
  Status enter();
  /// Says where this process is.
  Status present();
  Status openControl();
  Status awaitTable();
  Status connectToOthers();

  /// Tries the addresses at once, until one answers as it should or all have failed.
  /// The winner, if any; an error if this process was turned away.
  StatusOr<std::optional<Attempt>> tryAll(const std::vector<Address> &addresses,
                                          const Hello &hello);
  /// What the first process has said, if it has, beside that it runs. An error if it
  /// failed, is gone, or has been silent for long.
  StatusOr<std::optional<Frame>> askLeader();
  /// Waits for it to say something. How long that may take is its own business.
  StatusOr<Frame> hear();
  Error leaderIsGone() const;
  Error missedError(size_t self, const std::string &last) const;
  Hello hello(Purpose purpose) const;

  const MeetingPlace &place;
  const uint64_t key;
  const Clock::time_point deadline;
  uint64_t token = 0;
  Address leaderAddress, ownAddress;
  Link leader, control;
  Clock::time_point heard;
  std::optional<FileDescriptor> listener;
  /// Of each process but the first.
  std::vector<Presence> table;
  std::vector<Link> others;
  /// What the last attempts came to.
  std::string tried;
};

} // namespace cleave::rt::tcp

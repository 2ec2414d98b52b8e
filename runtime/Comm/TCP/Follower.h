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
  /// The next frame of the first process.
  StatusOr<Frame> hear(Clock::time_point deadline);
  Error leaderIsGone() const;
  Error missedError(size_t self, const std::string &last) const;
  Hello hello(Purpose purpose) const;

  const MeetingPlace &place;
  const uint64_t key;
  const Clock::time_point deadline;
  uint64_t token = 0;
  Address leaderAddress, ownAddress;
  Link leader, control;
  std::optional<FileDescriptor> listener;
  /// Of each process but the first.
  std::vector<Presence> table;
  std::vector<Link> others;
  /// What the last attempts came to.
  std::string tried;
};

} // namespace cleave::rt::tcp

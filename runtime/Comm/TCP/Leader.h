// The first process's side of a meeting over TCP. Internal to Comm/TCP.
#pragma once

#include "runtime/Comm/TCP/Greeting.h"
#include "runtime/Comm/TCP/Presence.h"

namespace cleave::rt::tcp {

class Leader {
public:
  explicit Leader(const MeetingPlace &place);
  StatusOr<std::vector<Contact>> run();

private:
  struct Member {
    Link messages, control;
    Presence presence;
    /// By which address of this host it came.
    Address cameTo;
    /// It has said where it is; both connections are there; it is connected to all.
    bool isPresent = false, isComplete = false, isReady = false;
  };

  StatusOr<std::vector<FileDescriptor>> listen();
  std::vector<Address> placesToListen() const;
  Status gather(Door &door);
  void letIn(Guest guest);
  void refuse(Link link, std::string message, std::string given, std::string suggestion);
  void hearGuests();
  /// And tells them now and then that this one runs. An error if one failed or is gone.
  Status hearMembers();
  void watchAll(std::vector<pollfd> &entries) const;
  void sendTable();
  Status awaitReady();
  std::vector<int> missing(bool Member::*quality) const;
  std::string missingText(bool Member::*quality) const;
  /// Tells all who are there.
  Error spread(Error error);

  const MeetingPlace &place;
  const uint64_t key, token;
  std::string listensAt;
  Clock::time_point saidAlive;
  std::vector<Member> members;
  /// Have said hello, and not yet where they are.
  std::vector<Guest> guests;
  /// Turned away, until they have read why.
  std::vector<Link> leaving;
};

} // namespace cleave::rt::tcp

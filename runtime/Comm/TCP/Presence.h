// What the processes of a meeting tell each other of themselves, and what tells their
// run from others. Internal to Comm/TCP.
#pragma once

#include "runtime/Comm/Processes/Wire.h"
#include "runtime/Comm/TCP/Meeting.h"
#include "runtime/Comm/TCP/Sockets.h"

namespace cleave::rt::tcp {

/// For connections among those who have come.
inline constexpr std::chrono::seconds limitOfMesh{20};

/// Alike on all processes of a run, and hardly on others that meet at the same place.
uint64_t keyOf(const MeetingPlace &place);

/// Where a process is, as it says of itself.
struct Presence {
  std::string host;
  uint64_t pid = 0;
  /// Of its listener.
  Address address;

  static Presence ofSelf();
  Packer &pack(Packer &packer) const;
  static Presence unpack(Unpacker &payload);
  /// "process 2 on host nd3, pid 4711"
  std::string describe(int process) const;
};

/// An error if the meeting was told to end.
Status checkStopped(const MeetingPlace &place);

/// "30 s"
std::string secondsText(std::chrono::milliseconds time);

} // namespace cleave::rt::tcp

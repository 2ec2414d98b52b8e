// The two sides of a meeting.
#include "runtime/Comm/TCP/Meeting.h"

#include "runtime/Comm/TCP/Follower.h"
#include "runtime/Comm/TCP/Leader.h"

namespace cleave::rt::tcp {

StatusOr<std::vector<Contact>> meet(const MeetingPlace &place) {
  if (place.process == 0)
    return Leader(place).run();
  return Follower(place).run();
}

} // namespace cleave::rt::tcp

// Packing, and words.
#include "runtime/Comm/TCP/Presence.h"

#include <fmt/format.h>

#include <unistd.h>

namespace cleave::rt::tcp {

uint64_t keyOf(const MeetingPlace &place) {
  // FNV-1a: alike for all, whatever their libraries.
  uint64_t key = 14695981039346656037u;
  for (char c : place.run)
    key = (key ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return key;
}

Packer &Presence::pack(Packer &packer) const {
  return packer.text(host).number(pid).text(address.bytes());
}

Presence Presence::unpack(Unpacker &payload) {
  Presence presence;
  presence.host = payload.text();
  presence.pid = payload.number();
  presence.address = Address::fromBytes(payload.text()).value_or(Address());
  return presence;
}

std::string Presence::describe(int process) const {
  return fmt::format("process {} on host {}, pid {}", process, host, pid);
}

Presence Presence::ofSelf() {
  Presence presence;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  presence.host = host;
  presence.pid = static_cast<uint64_t>(::getpid());
  return presence;
}

Status checkStopped(const MeetingPlace &place) {
  if (!place.isStopped || !place.isStopped())
    return {};
  Error error = runError("comm.stopped", "stopped by a signal before all processes had met");
  error.exitCode = ExitCode::Interrupted;
  return error;
}

std::string secondsText(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

} // namespace cleave::rt::tcp

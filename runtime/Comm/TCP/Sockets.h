// Addresses and sockets of TCP, version 4 and 6 alike. Nothing here waits, but for the
// look-up of a name. Internal to Comm/TCP.
#pragma once

#include "runtime/Base/Files.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

namespace cleave::rt::tcp {

/// Where a socket is: an IP address and a port.
class Address {
public:
  Address() = default;
  Address(const sockaddr *address, socklen_t size);
  /// From `bytes`; nothing if they are no address.
  static std::optional<Address> fromBytes(std::string_view bytes);
  /// All addresses of this machine, on any port.
  static Address any(bool isVersion6);
  /// Of this end of a socket.
  static Address localOf(int socket);

  const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage); }
  socklen_t size() const { return length; }
  std::string_view bytes() const { return {reinterpret_cast<const char *>(&storage), length}; }
  bool isVersion6() const { return storage.ss_family == AF_INET6; }
  bool isLoopback() const;
  uint16_t port() const;
  Address withPort(uint16_t port) const;
  /// The same host, whatever the ports.
  bool isHostOf(const Address &other) const;
  /// An address that means something on one wire only belongs to an interface, which
  /// has another number on each host: that of `other`, which is of this host.
  Address onInterfaceOf(const Address &other) const;
  /// "10.0.0.1", "::1"
  std::string host() const;
  /// "10.0.0.1:29500", "[::1]:29500"
  std::string text() const;

private:
  sockaddr_storage storage = {};
  socklen_t length = 0;
};

/// The addresses that a name stands for; empty, and `reason`, if there are none.
std::vector<Address> lookUp(const std::string &host, uint16_t port, std::string &reason);

/// The addresses of this machine's interfaces.
std::vector<Address> ownAddresses();

/// A socket that listens at `address`, or an invalid one and an errno. On `any` of
/// version 6, those of version 4 too.
FileDescriptor listenAt(const Address &address, int &code);

/// Begins a connection, which is made when the socket can be written to and
/// `connectionError` is 0. An invalid socket and an errno if it can't even begin.
FileDescriptor beginConnection(const Address &address, int &code);
int connectionError(int socket);

/// The next one who has connected; an invalid socket if there is none.
FileDescriptor acceptConnection(int listener);

} // namespace cleave::rt::tcp

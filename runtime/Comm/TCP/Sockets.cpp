// Thin wraps of system calls.
#include "runtime/Comm/TCP/Sockets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

namespace cleave::rt::tcp {

namespace {

/// Every message is waited for: none is held back to be sent with the next.
void sendAtOnce(int socket) {
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

} // namespace

Address::Address(const sockaddr *address, socklen_t size)
    : length(std::min<socklen_t>(size, sizeof storage)) {
  std::memcpy(&storage, address, length);
}

std::optional<Address> Address::fromBytes(std::string_view bytes) {
  Address address;
  if (bytes.size() > sizeof address.storage)
    return std::nullopt;
  std::memcpy(&address.storage, bytes.data(), bytes.size());
  address.length = static_cast<socklen_t>(bytes.size());
  const bool isVersion4 =
      bytes.size() == sizeof(sockaddr_in) && address.storage.ss_family == AF_INET;
  const bool isVersion6 =
      bytes.size() == sizeof(sockaddr_in6) && address.storage.ss_family == AF_INET6;
  if (!isVersion4 && !isVersion6)
    return std::nullopt;
  return address;
}

Address Address::any(bool isVersion6) {
  if (isVersion6) {
    sockaddr_in6 address = {};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_any;
    return {reinterpret_cast<const sockaddr *>(&address), sizeof address};
  }
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  return {reinterpret_cast<const sockaddr *>(&address), sizeof address};
}

Address Address::localOf(int socket) {
  Address address;
  address.length = sizeof address.storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr *>(&address.storage), &address.length) != 0)
    return {};
  const auto *v6 = reinterpret_cast<const sockaddr_in6 *>(&address.storage);
  if (!address.isVersion6() || !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
    return address;
  // A socket of both versions says so of a connection of version 4.
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = v6->sin6_port;
  std::memcpy(&v4.sin_addr, v6->sin6_addr.s6_addr + 12, sizeof v4.sin_addr);
  return {reinterpret_cast<const sockaddr *>(&v4), sizeof v4};
}

bool Address::isLoopback() const {
  if (isVersion6())
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6 *>(&storage)->sin6_addr);
  const uint32_t bits = ntohl(reinterpret_cast<const sockaddr_in *>(&storage)->sin_addr.s_addr);
  return length > 0 && bits >> 24 == 127;
}

uint16_t Address::port() const {
  // Both versions have it in the same place.
  return ntohs(reinterpret_cast<const sockaddr_in *>(&storage)->sin_port);
}

Address Address::withPort(uint16_t port) const {
  Address address = *this;
  reinterpret_cast<sockaddr_in *>(&address.storage)->sin_port = htons(port);
  return address;
}

bool Address::isHostOf(const Address &other) const {
  if (storage.ss_family != other.storage.ss_family)
    return false;
  if (isVersion6())
    return IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6 *>(&storage)->sin6_addr,
                              &reinterpret_cast<const sockaddr_in6 *>(&other.storage)->sin6_addr);
  return reinterpret_cast<const sockaddr_in *>(&storage)->sin_addr.s_addr ==
         reinterpret_cast<const sockaddr_in *>(&other.storage)->sin_addr.s_addr;
}

Address Address::onInterfaceOf(const Address &other) const {
  Address address = *this;
  auto *v6 = reinterpret_cast<sockaddr_in6 *>(&address.storage);
  if (isVersion6() && other.isVersion6() && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
    v6->sin6_scope_id = reinterpret_cast<const sockaddr_in6 *>(&other.storage)->sin6_scope_id;
  return address;
}

std::string Address::host() const {
  char host[NI_MAXHOST] = "?";
  ::getnameinfo(get(), length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

std::string Address::text() const {
  return isVersion6() ? fmt::format("[{}]:{}", host(), port())
                      : fmt::format("{}:{}", host(), port());
}

std::vector<Address> lookUp(const std::string &host, uint16_t port, std::string &reason) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo *list = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (code != 0) {
    reason = code == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(code);
    return {};
  }
  std::vector<Address> found;
  for (const addrinfo *entry = list; entry; entry = entry->ai_next) {
    const Address address = Address(entry->ai_addr, entry->ai_addrlen).withPort(port);
    if (std::ranges::none_of(found, [&](const Address &known) { return known.isHostOf(address); }))
      found.push_back(address);
  }
  ::freeaddrinfo(list);
  return found;
}

std::vector<Address> ownAddresses() {
  ifaddrs *list = nullptr;
  if (::getifaddrs(&list) != 0)
    return {};
  std::vector<Address> found;
  for (const ifaddrs *entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr)
      continue;
    if (entry->ifa_addr->sa_family == AF_INET)
      found.emplace_back(entry->ifa_addr, sizeof(sockaddr_in));
    else if (entry->ifa_addr->sa_family == AF_INET6)
      found.emplace_back(entry->ifa_addr, sizeof(sockaddr_in6));
  }
  ::freeifaddrs(list);
  return found;
}

FileDescriptor listenAt(const Address &address, int &code) {
  FileDescriptor socket(::socket(address.isVersion6() ? AF_INET6 : AF_INET,
                                 SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) {
    code = errno;
    return {};
  }
  // A port may be used again at once after a run that ended.
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address.isVersion6()) {
    const int alone = address.isHostOf(Address::any(true)) ? 0 : 1;
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &alone, sizeof alone);
  }
  if (::bind(socket.get(), address.get(), address.size()) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    code = errno;
    return {};
  }
  code = 0;
  return socket;
}

FileDescriptor beginConnection(const Address &address, int &code) {
  FileDescriptor socket(::socket(address.isVersion6() ? AF_INET6 : AF_INET,
                                 SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  code = 0;
  if (!socket.valid() ||
      (::connect(socket.get(), address.get(), address.size()) != 0 && errno != EINPROGRESS)) {
    code = errno;
    return {};
  }
  sendAtOnce(socket.get());
  return socket;
}

int connectionError(int socket) {
  int code = 0;
  socklen_t length = sizeof code;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &length) == 0 ? code : errno;
}

FileDescriptor acceptConnection(int listener) {
  FileDescriptor socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.valid())
    sendAtOnce(socket.get());
  return socket;
}

} // namespace cleave::rt::tcp

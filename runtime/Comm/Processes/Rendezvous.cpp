// Introductions, addresses, connections.
#include "runtime/Comm/Processes/Rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cleave::rt {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds limit{30};
/// For one address: a wrong one may swallow what is sent to it.
constexpr std::chrono::seconds limitOfAddress{3};
constexpr size_t mostAddresses = 24;

struct Address {
  uint8_t isVersion6;
  uint8_t bytes[16];
};

/// What travels; of equal size for all.
struct Introduction {
  char host[256];
  uint64_t pid, token, coresHash;
  uint32_t cores, port, addressCount;
  Address addresses[mostAddresses];
};

/// The addresses of this machine, those of its own loop last.
void listAddresses(Introduction &self) {
  ifaddrs *list = nullptr;
  if (::getifaddrs(&list) != 0)
    return;
  std::vector<Address> outer, inner;
  for (const ifaddrs *entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr)
      continue;
    Address address = {};
    bool isLoop = false;
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto *v4 = reinterpret_cast<const sockaddr_in *>(entry->ifa_addr);
      std::memcpy(address.bytes, &v4->sin_addr, 4);
      isLoop = address.bytes[0] == 127;
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto *v6 = reinterpret_cast<const sockaddr_in6 *>(entry->ifa_addr);
      address.isVersion6 = 1;
      std::memcpy(address.bytes, &v6->sin6_addr, 16);
      // Link-local addresses mean nothing without the name of an interface.
      if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
        continue;
      isLoop = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    } else {
      continue;
    }
    (isLoop ? inner : outer).push_back(address);
  }
  ::freeifaddrs(list);
  outer.insert(outer.end(), inner.begin(), inner.end());
  self.addressCount = static_cast<uint32_t>(std::min(outer.size(), mostAddresses));
  std::copy_n(outer.begin(), self.addressCount, self.addresses);
}

Introduction introduceSelf() {
  Introduction self = {};
  ::gethostname(self.host, sizeof self.host - 1);
  self.pid = static_cast<uint64_t>(::getpid());
  std::random_device random;
  self.token = static_cast<uint64_t>(random()) << 32 | random();
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) {
    self.cores = static_cast<uint32_t>(CPU_COUNT(&mask));
    self.coresHash =
        std::hash<std::string_view>()({reinterpret_cast<const char *>(&mask), sizeof mask});
  }
  listAddresses(self);
  return self;
}

Error socketError(const char *what, int code) {
  Error error = systemError("comm.unreachable", what, code);
  return std::move(error).withRule(
      "the processes of a run reach the first of them over TCP, on a port of its choice");
}

/// A socket that listens on a port of the system's choice.
StatusOr<FileDescriptor> listenAnywhere(uint32_t &port) {
  FileDescriptor socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.valid()) {
    const int no = 0;
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    sockaddr_in6 any = {};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    if (::bind(socket.get(), reinterpret_cast<sockaddr *>(&any), sizeof any) != 0)
      socket = FileDescriptor();
  }
  if (!socket.valid()) {
    // A system without version 6.
    socket = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    if (!socket.valid() ||
        ::bind(socket.get(), reinterpret_cast<sockaddr *>(&any), sizeof any) != 0)
      return socketError("cannot open a socket for the other processes", errno);
  }
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  if (::listen(socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr *>(&bound), &size) != 0)
    return socketError("cannot listen for the other processes", errno);
  port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 *>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in *>(&bound)->sin_port);
  return socket;
}

/// Waits until `descriptor` can be read (or written); false at the deadline.
bool awaitReady(int descriptor, short events, Clock::time_point deadline) {
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0)
      return false;
    pollfd entry{descriptor, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(left));
    if (ready > 0)
      return true;
    if (ready < 0 && errno != EINTR)
      return false;
  }
}

std::optional<Frame> awaitFrame(Link &link, Clock::time_point deadline) {
  while (awaitReady(link.descriptor(), POLLIN, deadline)) {
    const bool isAlive = link.read();
    if (auto frame = link.next())
      return frame;
    if (!isAlive)
      return std::nullopt;
  }
  return std::nullopt;
}

/// Packets at once: they are few, and somebody waits for each.
void sendAtOnce(int descriptor) {
  const int yes = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

int connectTo(const Address &address, uint32_t port, FileDescriptor &socket) {
  sockaddr_storage to = {};
  socklen_t size = 0;
  if (address.isVersion6) {
    auto *v6 = reinterpret_cast<sockaddr_in6 *>(&to);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(port));
    std::memcpy(&v6->sin6_addr, address.bytes, 16);
    size = sizeof *v6;
  } else {
    auto *v4 = reinterpret_cast<sockaddr_in *>(&to);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    std::memcpy(&v4->sin_addr, address.bytes, 4);
    size = sizeof *v4;
  }
  socket = FileDescriptor(::socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid())
    return errno;
  if (::connect(socket.get(), reinterpret_cast<sockaddr *>(&to), size) == 0)
    return 0;
  if (errno != EINPROGRESS)
    return errno;
  if (!awaitReady(socket.get(), POLLOUT, Clock::now() + limitOfAddress))
    return ETIMEDOUT;
  int code = 0;
  socklen_t length = sizeof code;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &length);
  return code;
}

/// Finds the leader under one of its addresses; it answers a greeting with its token.
StatusOr<Link> reachLeader(const Introduction &leader, int self) {
  std::string tried;
  for (uint32_t i = 0; i < leader.addressCount; ++i) {
    FileDescriptor socket;
    int code = connectTo(leader.addresses[i], leader.port, socket);
    if (code == 0) {
      sendAtOnce(socket.get());
      Link link(std::move(socket));
      link.queue(FrameKind::Hello,
                 Packer().number(leader.token).number(static_cast<uint64_t>(self)).take());
      code = ENOPROTOOPT;
      if (link.write()) {
        const auto answer = awaitFrame(link, Clock::now() + limitOfAddress);
        if (answer && Unpacker(answer->payload).number() == leader.token)
          return link;
      }
    }
    char text[INET6_ADDRSTRLEN] = "";
    ::inet_ntop(leader.addresses[i].isVersion6 ? AF_INET6 : AF_INET, leader.addresses[i].bytes,
                text, sizeof text);
    tried += fmt::format("{}{} ({})", tried.empty() ? "" : ", ", text,
                         code == ENOPROTOOPT ? "somebody else answers" : std::strerror(code));
  }
  return runError("comm.unreachable",
                  fmt::format("process {} cannot reach process 0 on host {}", self, leader.host))
      .withGiven(fmt::format("port {}; {}", leader.port, tried))
      .withRule("the processes of a run reach the first of them over TCP, on a port of its choice")
      .suggest("let the hosts of the run reach each other");
}

/// The leader's side: all others greet it.
StatusOr<std::vector<Link>> awaitOthers(int listener, const std::vector<Introduction> &all) {
  std::vector<Link> links(all.size());
  const auto deadline = Clock::now() + limit + limitOfAddress;
  for (size_t missing = all.size() - 1; missing > 0;) {
    if (!awaitReady(listener, POLLIN, deadline)) {
      std::string who;
      for (size_t i = 1; i < all.size(); ++i)
        if (!links[i].isOpen())
          who += fmt::format("{}{} ({})", who.empty() ? "" : ", ", i, all[i].host);
      return runError("comm.unreachable",
                      fmt::format("processes did not come to process 0 on host {}: {}", all[0].host,
                                  who))
          .withRule("the processes of a run reach the first of them over TCP")
          .suggest("let the hosts of the run reach each other");
    }
    FileDescriptor socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid())
      continue;
    sendAtOnce(socket.get());
    Link link(std::move(socket));
    const auto greeting = awaitFrame(link, Clock::now() + limitOfAddress);
    if (!greeting || greeting->kind != FrameKind::Hello)
      continue;
    Unpacker payload(greeting->payload);
    const uint64_t token = payload.number(), process = payload.number();
    if (!payload.ok() || token != all[0].token || process == 0 || process >= all.size())
      continue;
    link.queue(FrameKind::Hello, Packer().number(token).take());
    if (!link.write())
      continue;
    if (!links[process].isOpen())
      --missing;
    links[process] = std::move(link);
  }
  return links;
}

/// The leader holds a descriptor for each process, beside what the library holds.
void allowManyDescriptors() {
  rlimit allowed = {};
  if (::getrlimit(RLIMIT_NOFILE, &allowed) != 0)
    return;
  allowed.rlim_cur = allowed.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &allowed);
}

Error transportFailed(const CleaveTransport &transport, int code) {
  char text[512] = "";
  transport.describe(transport.context, code, text, sizeof text);
  return runError("comm.transport_failed",
                  fmt::format("{} failed at the start: {}", transport.library, text));
}

/// The transport's own connections between the leader and the others.
StatusOr<std::vector<Link>> takeConnections(const CleaveTransport &transport) {
  const bool leads = transport.process == 0;
  std::vector<Link> links(leads ? 1 : 0);
  for (int process = leads ? 1 : 0; process < (leads ? transport.processes : 1); ++process) {
    int socket = -1;
    if (const int code = transport.connection(transport.context, process, &socket); code != 0)
      return transportFailed(transport, code);
    links.emplace_back(FileDescriptor(socket));
  }
  return links;
}

} // namespace

std::string ProcessInfo::describe(int process) const {
  return fmt::format("process {} on host {}, pid {}", process, host, pid);
}

StatusOr<Rendezvous> meetAll(const CleaveTransport &transport) {
  Introduction self = introduceSelf();
  FileDescriptor listener;
  if (transport.process == 0 && !transport.connection) {
    allowManyDescriptors();
    CLEAVE_RT_ASSIGN_OR_RETURN(listener, listenAnywhere(self.port));
  }
  std::vector<Introduction> all(static_cast<size_t>(transport.processes));
  if (const int code = transport.allGather(transport.context, &self, sizeof self, all.data());
      code != 0)
    return transportFailed(transport, code);
  Rendezvous result;
  for (const Introduction &one : all)
    result.processes.push_back({one.host, static_cast<int64_t>(one.pid),
                                fmt::format("{} {:x}", one.cores, one.coresHash)});
  if (transport.connection) {
    CLEAVE_RT_ASSIGN_OR_RETURN(result.links, takeConnections(transport));
  } else if (transport.process == 0) {
    CLEAVE_RT_ASSIGN_OR_RETURN(result.links, awaitOthers(listener.get(), all));
  } else {
    CLEAVE_RT_ASSIGN_OR_RETURN(Link link, reachLeader(all[0], transport.process));
    result.links.push_back(std::move(link));
  }
  return result;
}

} // namespace cleave::rt

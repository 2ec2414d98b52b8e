//===- Collectives.cpp - The time of one exchange --------------------------===//

#include "cleave/CostModel/Collectives.h"

namespace cleave::cost {

/// From how many devices on the switch adds.
static constexpr int64_t kSwitchRanks = 6;
/// Of the network's rate in exchanges of everyone with everyone. Inside a
/// domain they run at the links' rate (collectives.csv).
static constexpr double kAllToAllNetwork = 0.85;

static double timesSent(Exchange kind) { return kind == Exchange::AllReduce ? 2 : 1; }

/// At the rate that was measured for so many bytes.
static Seconds atRate(const Curve &curve, Bytes bytes) {
  const double size = std::max(bytes.value, curve.sizes.front());
  return Seconds(size / curve(size));
}

static Seconds inside(const Device &device, Exchange kind, int64_t ranks, Bytes bytes) {
  const LinkCurve &link = device.link;
  const double n = static_cast<double>(ranks), twice = timesSent(kind);
  if (const Curve &curve = link.measured[static_cast<size_t>(kind)]; !curve.empty()) {
    // What a rank sends is in proportion to (n - 1) / n.
    const auto measured = static_cast<double>(link.measuredRanks);
    return atRate(curve, bytes * ((n - 1) / n / ((measured - 1) / measured)));
  }
  double share = link.of(kind).share;
  if (ranks >= kSwitchRanks && kind != Exchange::AllToAll)
    share *= link.inSwitch;
  if (ranks == 2)
    share *= link.of(kind).pair;
  const Seconds stream = bytes * (twice * (n - 1) / n) / (link.bandwidth * share);
  return link.start + link.hop * ((n - 1) * twice) + stream +
         Seconds(std::sqrt(stream.value * link.ramp.value));
}

Seconds exchangeTime(const Device &device, Exchange kind, Group group, Bytes bytes) {
  if (group.ranks <= 1)
    return {};
  const int64_t near = std::clamp<int64_t>(group.perDomain, 1, group.ranks);
  const double domains = std::ceil(static_cast<double>(group.ranks) / static_cast<double>(near));
  if (domains <= 1)
    return inside(device, kind, group.ranks, bytes);
  const NetworkCurve &net = device.network;
  const bool all = kind == Exchange::AllToAll;
  // Each domain's devices carry a part of what it sends.
  const double rails = all ? 1 : static_cast<double>(near);
  const Seconds between = bytes * (timesSent(kind) * (domains - 1) / domains) /
                              (net.bandwidth * ((all ? kAllToAllNetwork : net.share) * rails)) +
                          net.start + net.hop * std::log2(domains);
  return near > 1 ? std::max(between, inside(device, kind, near, bytes)) : between;
}

Seconds sendTime(const Device &device, bool insideDomain, Bytes bytes) {
  if (insideDomain && !device.link.sends.empty())
    return atRate(device.link.sends, bytes);
  constexpr Seconds start{15e-6};
  return start + bytes / (insideDomain ? device.link.bandwidth
                                       : device.network.bandwidth * device.network.share);
}

} // namespace cleave::cost

//===- Machines.cpp - A cluster as the cost model sees it --------------------===//

#include "cleave/Planner/Machines.h"

#include <algorithm>

namespace cleave {

/// Of accelerators: what their allocators reserve above what is used at a time, and what the
/// driver's context takes (docs/CostModel.md).
static constexpr double kReserved = 1.05, kContext = 1e9;

/// The rates of so many cores that work on one thing.
static void takeCores(cost::Device &device, int64_t cores) {
  const auto times = static_cast<double>(cores);
  for (auto *rates : {&device.peak, &device.product.rate})
    for (auto &[width, rate] : *rates)
      rate = rate * times;
  for (auto &[name, curve] : device.attention) {
    curve.forward = curve.forward * times;
    curve.backward = curve.backward * times;
  }
  device.bandwidth = device.bandwidth * times;
  device.cores = times;
  device.product.units *= cores;
}

rt::StatusOr<cost::Device> deviceOf(const Cluster &cluster, const std::string &share) {
  if (cluster.hardwareFile.empty() && cluster.device.empty())
    return rt::userError("device.unknown", "the cluster's file does not say what its devices are")
        .withGiven("no \"device\"")
        .withRule("times are predicted for a device that share/hardware describes")
        .suggest("\"device\": \"h100-sxm-80gb\" in the cluster's file")
        .suggest("--hardware FILE, a description of it");
  CLEAVE_RT_ASSIGN_OR_RETURN(cost::Device device, cluster.hardwareFile.empty()
                                                      ? cost::readDevice(share, cluster.device)
                                                      : cost::readDeviceFile(cluster.hardwareFile));
  if (cluster.local)
    takeCores(device, cluster.coresOfRank);
  if (cluster.deviceMemory)
    device.memory = cost::Bytes(*cluster.deviceMemory);
  if (!cluster.levels.empty()) {
    const NetworkLevel &inner = cluster.levels.front();
    device.link.domain = inner.span;
    if (inner.bandwidth && device.link.peak)
      // As large a part of it as was measured on others.
      device.link.bandwidth = device.link.bandwidth * (*inner.bandwidth / device.link.peak->value);
    else if (inner.bandwidth)
      device.link.bandwidth = cost::BytesPerSecond(*inner.bandwidth);
    if (!inner.inNetworkReduction)
      device.link.inSwitch = 1;
  } else if (cluster.local) {
    device.link.domain = cluster.ranks();
  } else {
    // Links inside of a node are all that is known to be there.
    device.link.domain = std::min(device.link.domain, cluster.devicesPerNode);
  }
  if (cluster.levels.size() > 1 && cluster.levels[1].bandwidth)
    device.network.bandwidth =
        cost::BytesPerSecond(*cluster.levels[1].bandwidth / cluster.levels[1].oversubscription);
  return device;
}

bool assumesNetwork(const Cluster &cluster) {
  if (cluster.local || cluster.nodes == 1)
    return false;
  if (cluster.levels.size() == 1 && cluster.levels.front().span >= cluster.ranks())
    return false;
  return cluster.levels.size() < 2 || !cluster.levels[1].bandwidth;
}

double usableMemory(const Cluster &cluster) {
  if (!cluster.deviceMemory)
    return 0;
  return cluster.local ? *cluster.deviceMemory : usableMemory(*cluster.deviceMemory);
}

double usableMemory(double bytes) {
  // What is smaller than a driver's context is no accelerator; more is never less.
  return std::max(std::min(bytes, kContext), (bytes - kContext) / kReserved);
}

double memoryWith(const Cluster &cluster, double usable) {
  return cluster.local || usable <= kContext ? usable : usable * kReserved + kContext;
}

} // namespace cleave

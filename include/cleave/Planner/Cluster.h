//===- Cluster.h - The machines a plan is for ------------------------------===//
//
// What `--cluster` names: a preset with a count ("dgx-h100:2", "local:4") or a
// JSON file. A plan reads machines from here and never asks a device. Presets
// and devices are files under share/.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/Base/Status.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// One level of the network, from the inside out.
struct NetworkLevel {
  std::string name;
  /// Devices that a domain of this level joins.
  int64_t span = 1;
  /// Bytes/s for each device and direction, and seconds; unknown if absent.
  std::optional<double> bandwidth, latency;
  bool inNetworkReduction = false;
  /// How many times what its devices can send goes beyond what passes.
  double oversubscription = 1;
};

struct Cluster {
  /// As the user named it.
  std::string name;
  std::string device;
  /// A file that describes the device in place of the one of that name; empty: none.
  std::string hardwareFile;
  int64_t nodes = 1, devicesPerNode = 1;
  /// Memory of one device in bytes; unknown if absent.
  std::optional<double> deviceMemory;
  std::vector<NetworkLevel> levels;
  /// What a run's length, energy and cost follow from; unknown if absent. Hours until a device
  /// interrupts a run; power of all by that of devices; money for a device and hour; bytes/s that a
  /// node writes to storage; seconds from an interruption to the next step.
  std::optional<double> mtbfHoursPerDevice, powerOverhead, pricePerDeviceHour, storageBandwidth,
      restartSeconds;
  /// Where they come from.
  std::string source;
  /// Ranks are threads of this machine, each with so many of its cores.
  bool local = false;
  int64_t coresOfRank = 1;

  int64_t ranks() const { return nodes * devicesPerNode; }
};

/// Reads `--cluster`. `share` is the folder of presets. Errors: `cluster.unknown`
/// with the presets, `cluster.bad_count`, `cluster.*` of the file reader.
rt::StatusOr<Cluster> readCluster(const std::string &text, const std::string &share);

} // namespace cleave

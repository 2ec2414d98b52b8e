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
};

struct Cluster {
  /// As the user named it.
  std::string name;
  std::string device;
  int64_t nodes = 1, devicesPerNode = 1;
  /// Memory of one device in bytes; unknown if absent.
  std::optional<double> deviceMemory;
  std::vector<NetworkLevel> levels;
  /// Ranks are threads of this machine.
  bool local = false;

  int64_t ranks() const { return nodes * devicesPerNode; }
};

/// Reads `--cluster`. `share` is the folder of presets. Errors: `cluster.unknown`
/// with the presets, `cluster.bad_count`, `cluster.*` of the file reader.
rt::StatusOr<Cluster> readCluster(const std::string &text, const std::string &share);

} // namespace cleave

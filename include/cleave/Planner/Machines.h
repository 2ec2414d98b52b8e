//===- Machines.h - A cluster as the cost model sees it ----------------------===//
//
// Device files say what a device of a kind does; a cluster file says how many are
// joined by what. Speeds of a cluster's levels take the place of those that the
// device's file has for the machines it was measured in.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cleave/CostModel/Hardware.h"
#include "cleave/Planner/Cluster.h"

namespace cleave {

/// The device of `cluster` with the links of its first level and the network of its second. Errors:
/// `device.unknown`, `device.*` of the reader.
rt::StatusOr<cost::Device> deviceOf(const Cluster &cluster, const std::string &share);

/// Whether `cluster` has several nodes and does not say how fast the network between them is: then
/// it is taken to be that of the device's description.
bool assumesNetwork(const Cluster &cluster);

/// What a rank may use of its device: all but what an allocator cannot give out and what the driver
/// takes. 0: not known.
double usableMemory(const Cluster &cluster);
/// The same of a device with `bytes` of its own.
double usableMemory(double bytes);

/// The memory, in bytes, of a device of which a rank may use `usable` bytes.
double memoryWith(const Cluster &cluster, double usable);

} // namespace cleave

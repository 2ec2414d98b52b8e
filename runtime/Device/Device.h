// What a device that is not the processor does for a rank: it holds the rank's memory and
// runs the kernels of a GPU. The executor asks it once for each piece of work, and runs
// what it is given any number of times.
//
// Work is started in order and may go on while the processor does something else. Before
// the processor reads or writes the rank's memory it waits with `finish`; what it wrote is
// seen by the work that is started afterwards.
#pragma once

#include "runtime/Base/Status.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cleave::rt {

struct GridLaunch {
  std::string kernel;
  int64_t blocks = 1;
  int64_t threads = 1;
  /// Addresses of the kernel's arguments, in order.
  std::vector<void *> args;
  /// Of each argument; may be empty where nobody looks at them.
  std::vector<long long> bytes = {};
  /// Shared memory of each block, beside what the kernel's text declares.
  int64_t sharedBytes = 0;
};

/// Zeroed bytes that a device and the processor address alike, at a multiple of 64.
struct DeviceBytes {
  std::shared_ptr<std::byte[]> start;
  int64_t bytes = 0;

  /// Of the processor. `runtime.out_of_memory` with bytes and `what`.
  static StatusOr<DeviceBytes> ofSystem(int64_t bytes, const std::string &what);
};

/// A device as one rank has it, of which the rank's thread makes use.
class RankDevice {
public:
  using Work = std::function<Status()>;

  virtual ~RankDevice() = default;
  /// `runtime.out_of_memory` with bytes and `what`.
  virtual StatusOr<DeviceBytes> allocate(int64_t bytes, const std::string &what) = 0;
  /// Starts the launch when it is run; an internal error if there is no such kernel.
  virtual StatusOr<Work> prepare(GridLaunch launch) = 0;
  virtual Work zero(std::byte *at, int64_t bytes) = 0;
  /// The two do not overlap.
  virtual Work copy(std::byte *to, const std::byte *from, int64_t bytes) = 0;
  /// Waits for all that was started. The error of what failed.
  virtual Status finish() = 0;
};

/// The devices of this process, opened once for all of its ranks.
class Device {
public:
  virtual ~Device() = default;
  /// For the rank `rank`, the `place`-th on this machine; called on the rank's thread.
  virtual StatusOr<std::unique_ptr<RankDevice>> onRank(int64_t rank, int64_t place) = 0;
  /// For people, a line.
  virtual std::string describe() const = 0;
};

} // namespace cleave::rt

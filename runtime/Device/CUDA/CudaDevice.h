// NVIDIA's GPUs of this machine. The memory of a rank is managed: the device and the processor
// address it alike, and the driver moves pages. What a rank starts goes on a stream of its own,
// in order. Text of which there is no code yet is compiled for each architecture at the first start
// (TextCache.h).
#pragma once

#include "runtime/Device/CUDA/Driver.h"
#include "runtime/Device/Device.h"

#include <string>
#include <vector>

namespace cleave::rt {

class CudaDevice : public Device {
public:
  /// `codes`: of `text`, as CodeArchive.h has them. What is not among them is compiled.
  /// Kinds, all with exit 3: those of CudaDriver::open and cubinOf; `device.unavailable` without a
  /// device, or with one whose memory the processor can't read while it works.
  static StatusOr<std::unique_ptr<CudaDevice>> create(std::string_view text,
                                                      std::string_view codes = {});

  /// Ranks take the devices in turn.
  StatusOr<std::unique_ptr<RankDevice>> onRank(int64_t rank, int64_t place) override;
  std::string describe() const override;

private:
  struct Unit {
    CudaDriver::Device handle = 0;
    std::string name, architecture, code;
  };

  const CudaDriver *driver = nullptr;
  std::vector<Unit> units;
};

} // namespace cleave::rt

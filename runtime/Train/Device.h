// Where a program runs: on the processor that the binary was compiled for, or, if it is one of a
// GPU, on a device that is opened when the run starts.
#pragma once

#include "runtime/Device/Device.h"
#include "runtime/Schema/Image.h"
#include "runtime/Train/Flags.h"

#include <memory>

namespace cleave::rt {

/// The device that `--device` names (left out: the program's), opened; null for the processor.
/// `gpuText`: the source of the kernels that a GPU launches. Kinds, all with exit 3:
/// `device.unavailable`, those of CudaDevice and EmulatedDevice.
StatusOr<std::unique_ptr<Device>> openDevice(const Image &image, const TrainFlags &flags,
                                             std::string_view gpuText);

} // namespace cleave::rt

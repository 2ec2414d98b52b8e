// Where a program runs: on the processor that the binary was compiled for, or, if it is one of a
// GPU, on a device that is opened when the run starts.
#pragma once

#include "runtime/Device/Device.h"
#include "runtime/Exec/KernelTable.h"
#include "runtime/Schema/Image.h"
#include "runtime/Train/Flags.h"

#include <memory>
#include <string_view>

namespace cleave::rt {

/// The kernels that a binary brings: those that the processor runs, and of those that a GPU does
/// the source, and code that was compiled ahead (CodeArchive.h).
struct ProgramKernels {
  KernelTable table;
  std::string_view gpuText = {}, gpuCode = {};
};

/// The device that `--device` names (left out: the program's), opened; null for the processor.
/// Kinds, all with exit 3: `device.unavailable`, those of CudaDevice and EmulatedDevice.
StatusOr<std::unique_ptr<Device>> openDevice(const Image &image, const TrainFlags &flags,
                                             const ProgramKernels &kernels);

} // namespace cleave::rt

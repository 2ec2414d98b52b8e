// What launches a program's kernels: the processor that the binary was compiled for, or,
// for a program of a GPU, a device that is opened when the run starts.
#pragma once

#include "runtime/Device/Emulated/EmulatedDevice.h"
#include "runtime/Schema/Image.h"
#include "runtime/Train/Flags.h"

#include <optional>

namespace cleave::rt {

/// The device that `--device` names (left out: the program's), opened; nothing for the processor.
/// `gpuText`: the source of the kernels that a GPU launches. Kinds, all with exit 3:
/// `device.unavailable`, `device.unsupported`, those of EmulatedDevice.
StatusOr<std::optional<EmulatedDevice>> openDevice(const Image &image, const TrainFlags &flags,
                                                   std::string_view gpuText);

} // namespace cleave::rt

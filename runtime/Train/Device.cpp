// Devices by name.
#include "runtime/Train/Device.h"

#include "runtime/Device/CUDA/CudaDevice.h"
#include "runtime/Device/Emulated/EmulatedDevice.h"
#include "runtime/Schema/Unroll.h"

#include <fmt/format.h>

#include <set>

namespace cleave::rt {
namespace {

/// Kernels that a GPU launches.
std::vector<std::string> gpuKernels(const Image &image) {
  std::set<std::string> names;
  for (const Program &program : image.programs)
    for (size_t list = 0; list < program.entryLists(); ++list)
      forEachCommand(program.entryList(list), [&](const Command &command, int64_t) {
        if (const auto *kernel = std::get_if<KernelCommand>(&command.what); kernel)
          if (kernel->threads > 0)
            names.insert(kernel->symbol);
      });
  return {names.begin(), names.end()};
}

} // namespace

StatusOr<std::unique_ptr<Device>> openDevice(const Image &image, const TrainFlags &flags,
                                             const ProgramKernels &kernels) {
  const std::string &own = image.first().device;
  const std::string &device = flags.device.empty() ? own : flags.device;
  if (own == "cpu" && device == own)
    return std::unique_ptr<Device>();
  if (own == "cuda" && device == own) {
    CLEAVE_RT_ASSIGN_OR_RETURN(std::unique_ptr<Device> opened,
                               CudaDevice::create(kernels.gpuText, kernels.gpuCode));
    return opened;
  }
  if (own == "cuda" && device == "emulated") {
    CLEAVE_RT_ASSIGN_OR_RETURN(std::unique_ptr<Device> opened,
                               EmulatedDevice::create(kernels.gpuText, gpuKernels(image)));
    return opened;
  }
  return missingError("device.unavailable",
                      fmt::format("this binary was compiled for {}, not for \"{}\"", own, device))
      .withGiven(flags.device.empty() ? "no --device" : "--device " + flags.device)
      .withRule("a binary runs on the device that it was compiled for, one for cuda also emulated")
      .suggest(own == "cpu" ? "--device cpu" : "--device emulated");
}

} // namespace cleave::rt

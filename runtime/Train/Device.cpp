// Devices by name.
#include "runtime/Train/Device.h"

#include "runtime/Schema/Unroll.h"

#include <fmt/format.h>

#include <dlfcn.h>

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

Error unavailable(const TrainFlags &flags, const std::string &message) {
  return missingError("device.unavailable", message)
      .withGiven(flags.device.empty() ? "no --device" : "--device " + flags.device);
}

/// What a program of CUDA lacks here.
Error missingCuda(const TrainFlags &flags) {
  constexpr const char *driver = "libcuda.so.1";
  if (void *const library = ::dlopen(driver, RTLD_LAZY | RTLD_LOCAL)) {
    ::dlclose(library);
    return missingError("device.unsupported", "this version does not run programs on CUDA devices")
        .withRule("kernels for CUDA are emitted, and run on the emulated device alone")
        .suggest("--device emulated");
  }
  return unavailable(flags, fmt::format("{} is missing: there is no NVIDIA driver here", driver))
      .withRule("a binary of --target cuda runs where the driver is installed, or emulated")
      .suggest("--device emulated")
      .suggest("compile with --target cpu");
}

} // namespace

StatusOr<std::optional<EmulatedDevice>> openDevice(const Image &image, const TrainFlags &flags,
                                                   std::string_view gpuText) {
  const std::string &own = image.first().device;
  const std::string &device = flags.device.empty() ? own : flags.device;
  if (own == "cpu" && device == own)
    return std::optional<EmulatedDevice>();
  if (own == "cuda" && device == own)
    return missingCuda(flags);
  if (own == "cuda" && device == "emulated") {
    CLEAVE_RT_ASSIGN_OR_RETURN(EmulatedDevice opened,
                               EmulatedDevice::create(gpuText, gpuKernels(image)));
    return std::optional<EmulatedDevice>(std::move(opened));
  }
  return unavailable(flags,
                     fmt::format("this binary was compiled for {}, not for \"{}\"", own, device))
      .withRule("a binary runs on the device that it was compiled for, one for cuda also emulated")
      .suggest(own == "cpu" ? "--device cpu" : "--device emulated");
}

} // namespace cleave::rt

// From a library to a table of functions.
#include "runtime/Device/CUDA/Driver.h"

#include <fmt/format.h>

#include <dlfcn.h>

namespace cleave::rt {
namespace {

constexpr const char *kLibrary = "libcuda.so.1";

Error unavailable(std::string message) {
  return missingError("device.unavailable", std::move(message))
      .withRule(
          "a binary of --target cuda runs where NVIDIA's driver and a device are, or emulated")
      .suggest("--device emulated")
      .suggest("compile with --target cpu");
}

/// Finds symbols, and remembers the first that is missing.
struct Symbols {
  void *library;
  const char *missing = nullptr;

  template <typename Result, typename... Args>
  void find(Result (*&function)(Args...), const char *name) {
    function = reinterpret_cast<Result (*)(Args...)>(::dlsym(library, name));
    if (!function && !missing)
      missing = name;
  }
};

StatusOr<CudaDriver> load() {
  void *const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return unavailable(fmt::format("{} is missing: there is no NVIDIA driver here", kLibrary));
  CudaDriver driver = {};
  Symbols symbols{library};
  symbols.find(driver.init, "cuInit");
  symbols.find(driver.deviceCount, "cuDeviceGetCount");
  symbols.find(driver.device, "cuDeviceGet");
  symbols.find(driver.deviceName, "cuDeviceGetName");
  symbols.find(driver.attribute, "cuDeviceGetAttribute");
  symbols.find(driver.retain, "cuDevicePrimaryCtxRetain");
  symbols.find(driver.release, "cuDevicePrimaryCtxRelease_v2");
  symbols.find(driver.setCurrent, "cuCtxSetCurrent");
  symbols.find(driver.allocManaged, "cuMemAllocManaged");
  symbols.find(driver.free, "cuMemFree_v2");
  symbols.find(driver.createStream, "cuStreamCreate");
  symbols.find(driver.destroyStream, "cuStreamDestroy_v2");
  symbols.find(driver.synchronize, "cuStreamSynchronize");
  symbols.find(driver.memset, "cuMemsetD8Async");
  symbols.find(driver.memcpy, "cuMemcpyAsync");
  symbols.find(driver.loadModule, "cuModuleLoadData");
  symbols.find(driver.unloadModule, "cuModuleUnload");
  symbols.find(driver.function, "cuModuleGetFunction");
  symbols.find(driver.launch, "cuLaunchKernel");
  symbols.find(driver.errorName, "cuGetErrorName");
  symbols.find(driver.errorText, "cuGetErrorString");
  if (symbols.missing)
    return unavailable(
        fmt::format("{} has no {}: the driver is too old", kLibrary, symbols.missing));
  if (const auto code = driver.init(0); code == CudaDriver::kNoDevice)
    return unavailable("the NVIDIA driver here has no device");
  else if (code != 0)
    return unavailable(fmt::format("the NVIDIA driver does not start: {}",
                                   driver.check(code, "cuInit").error().message));
  return driver;
}

} // namespace

StatusOr<const CudaDriver *> CudaDriver::open() {
  static const StatusOr<CudaDriver> driver = load();
  if (!driver.ok())
    return driver.error();
  return &*driver;
}

Status CudaDriver::check(Code code, const char *what) const {
  if (code == 0)
    return {};
  const char *name = nullptr, *text = nullptr;
  if (errorName(code, &name) != 0 || !name)
    name = "an unknown error";
  if (errorText(code, &text) != 0 || !text)
    text = "no text";
  return runError("device.failed", fmt::format("{}: {} ({}, {})", what, text, name, code));
}

} // namespace cleave::rt
